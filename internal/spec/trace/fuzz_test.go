package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReader reads any bytes as any format: nothing panics, every job keeps the
// bounds, and what was read survives as a comb trace.
func FuzzReader(f *testing.F) {
	formats := []Format{Auto, Comb, Philly, PhillyCSV, Helios, Alibaba2020, Alibaba2023, Tiresias, Gavel, Chronus}
	for _, name := range []string{"philly.json", "philly.csv", "helios.csv", "alibaba2020/pai_task_table.csv", "alibaba2023.csv", "tiresias.csv",
		"gavel.trace", "chronus.csv", "comb.jsonl"} {
		b, err := os.ReadFile(sample(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(0), true)
	}
	for i, c := range rowErrors {
		if len(c.text) < 2000 {
			f.Add([]byte(c.text), uint8(0), i%2 == 0)
		}
	}
	f.Add([]byte(cutGzip()), uint8(3), false)
	table, err := ReadThroughputs(sample("throughputs.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, format uint8, lenient bool) {
		o := Options{Format: formats[int(format)%len(formats)], Lenient: lenient, Throughputs: table, GPU: "v100", MaxBytes: 1 << 20}
		r, err := NewReader("f", bytes.NewReader(in), o)
		if err != nil {
			return
		}
		var jobs []Job
		for j, err := range r.InOrder() {
			if err == nil {
				holdToBounds(t, &j)
				jobs = append(jobs, j)
			}
		}
		text, _ := written(t, Comb, jobs)
		for i, again := range read(t, string(text), Options{}) {
			if again.ID != jobs[i].ID || again.Submit != jobs[i].Submit || again.Duration != jobs[i].Duration || again.GPUs != jobs[i].GPUs ||
				again.User != jobs[i].User || len(again.Attempts) != len(jobs[i].Attempts) {
				t.Fatalf("%+v became %+v", jobs[i], again)
			}
		}
		for _, to := range Writable() {
			written(t, to, jobs)
		}
	})
}

func holdToBounds(t *testing.T, j *Job) {
	if j.ID == "" || j.GPUs < 1 || j.GPUs > MaxGPUs || j.Submit < 0 || int64(j.Submit) > maxTime || j.Duration < 0 || j.GPUMilli < 0 || j.GPUMilli > 1000 ||
		j.MilliCPU < 0 || j.MemoryMB < 0 || j.Nodes < 0 || j.Iterations < 0 || j.Interval < 0 || timeOf(j) < 0 {
		t.Fatalf("%+v", *j)
	}
}

// FuzzTables reads any bytes as the files beside a trace.
func FuzzTables(f *testing.F) {
	for _, name := range []string{"throughputs.json", "model_info.json", "samples.csv", "cluster.csv"} {
		b, err := os.ReadFile(filepath.Join(samples, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "64x8:V100,1x4")
	}
	f.Fuzz(func(t *testing.T, in []byte, cluster string) {
		if c, err := readValue("f", bytes.NewReader(in)); err == nil {
			again := *c
			if table, err := throughputs(c); err == nil && (len(table.Alone) < len(table.Workers())) {
				t.Error("a worker without a work")
			}
			if table, err := spreads(&again); err == nil && len(table.List) < len(table.Models()) {
				t.Error("a model without a speed")
			}
		}
		if list, err := readSamples("f", bytes.NewReader(in)); err == nil && len(list) > 0 && list[0] < 0 {
			t.Error("a negative sample")
		}
		if s, err := readNodeGroups("f", bytes.NewReader(in)); err == nil && (TotalGPUs(s) < 1 || TotalGPUs(s) > MaxGPUs) {
			t.Error(s)
		}
		if s, err := ParseNodeGroups(cluster); err == nil && (TotalGPUs(s) < 1 || len(s) != 1+strings.Count(cluster, ",")) {
			t.Error(s)
		}
	})
}
