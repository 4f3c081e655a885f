package trace

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/core/perf"
)

// dataFile gives the path of a public trace below COMB_DATA, or "" where it is not
// there: then the figure that needs it is named and not checked.
func dataFile(t testing.TB, name, figure string) string {
	dir := cmp.Or(os.Getenv("COMB_DATA"), filepath.Join("..", "..", "..", "..", "shared", "data"))
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		fmt.Printf("not checked, %s is not in COMB_DATA: %s\n", name, figure)
		return ""
	}
	return path
}

// TestPublicTraces holds what is read of the public traces to their known figures.
func TestPublicTraces(t *testing.T) {
	cases := []struct {
		file    string
		format  Format
		jobs    int64
		vcs     int
		largest int32
		hours   string
		skipped string
	}{
		{"philly/philly_jobs.csv.gz", PhillyCSV, 82_247, 15, 128, "978078.5", "[]"},
		{"chronus/trace_job_Philly_MIX1.csv.gz", Chronus, 30_756, 11, 32, "371328.1", "[{no GPU 184}]"},
		{"tiresias/60_job.csv", Tiresias, 60, 1, 8, "7.4", "[]"},
		{"tiresias/480_synth_job.csv", Tiresias, 480, 1, 32, "446.1", "[]"},
		{"gavel/minimize_makespan.trace", Gavel, 100, 1, 4, "601.2", "[]"},
	}
	for _, c := range cases {
		path := dataFile(t, c.file, fmt.Sprintf("%d jobs", c.jobs))
		if path == "" {
			continue
		}
		o := Options{}
		if c.format == Gavel {
			table := dataFile(t, "gavel/simulation_throughputs.json.gz", "601 GPU-hours on v100")
			if table == "" {
				continue
			}
			var err error
			if o.Throughputs, err = ReadThroughputs(table); err != nil {
				t.Fatal(err)
			}
			o.GPU = "v100"
		}
		r, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(r.Jobs(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if r.Format() != c.format || s.Jobs != c.jobs || len(s.VCs) != c.vcs || s.LargestGang != c.largest ||
			fmt.Sprintf("%.1f", s.GPUHours) != c.hours || fmt.Sprint(r.Skipped()) != c.skipped {
			t.Errorf("%s: %s, %d jobs, %d VCs, %d GPUs, %.1f GPU-hours, skipped %v", c.file, r.Format(), s.Jobs, len(s.VCs), s.LargestGang, s.GPUHours, r.Skipped())
		}
	}
}

// TestPublicTracesRoundTrip writes the public traces as comb and reads them back.
func TestPublicTracesRoundTrip(t *testing.T) {
	for _, file := range []string{"philly/philly_jobs.csv.gz", "chronus/trace_job_Philly_MIX1.csv.gz", "tiresias/60_job.csv"} {
		path := dataFile(t, file, "it survives as a comb trace")
		if path == "" {
			continue
		}
		jobs, _ := load(t, path, Options{})
		text, _ := written(t, Comb, jobs)
		again := read(t, string(text), Options{})
		if len(again) != len(jobs) {
			t.Fatalf("%s: %d of %d jobs", file, len(again), len(jobs))
		}
		for i := range jobs {
			if fmt.Sprint(jobs[i]) != fmt.Sprint(again[i]) {
				t.Fatalf("%s: %+v became %+v", file, jobs[i], again[i])
			}
		}
	}
}

// TestPublicTables reads the files beside the traces.
func TestPublicTables(t *testing.T) {
	if path := dataFile(t, "gavel/simulation_throughputs.json.gz", "6 workers, 492 works, 10338 pairs"); path != "" {
		table, err := ReadThroughputs(path)
		if err != nil {
			t.Fatal(err)
		}
		rate, ok := table.Rate("k80", perf.Work{Model: "ResNet-18 (batch size 16)", Scale: 1})
		if fmt.Sprint(table.Workers()) != "[k80 k80_unconsolidated p100 p100_unconsolidated v100 v100_unconsolidated]" || len(table.Alone) != 492 ||
			len(table.Pairs) != 10_830-492 || !ok || rate != 4_795_294_552 {
			t.Errorf("%v, %d works, %d pairs, %d", table.Workers(), len(table.Alone), len(table.Pairs), rate)
		}
	}
	if path := dataFile(t, "chronus/model_info.json", "alexnet on 8 GPUs of 2 nodes: .508"); path != "" {
		table, err := ReadSpreads(path)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := table.Speed("alexnet", 8, 2); !ok || s != 508_315 || len(table.Models()) != 5 {
			t.Errorf("%v, %d", table.Models(), s)
		}
	}
	for file, want := range map[string]string{"tiresias/yarn-gput1000.csv": "1001 from 121", "tiresias/yarn-gput10000.csv": "9999 from 121"} {
		if path := dataFile(t, file, want); path != "" {
			list, err := ReadSamples(path)
			if got := fmt.Sprintf("%d from %d", len(list), append(list, 0)[0]); err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", file, got, err, want)
			}
		}
	}
	for file, want := range map[string]NodeGroup{"n4g4": {Nodes: 4, GPUs: 4, Switches: 1, CPUs: 64, MemoryGB: 256},
		"n15g4": {Nodes: 15, GPUs: 4, Switches: 1, CPUs: 64, MemoryGB: 256}, "n32g4": {Nodes: 32, GPUs: 4, Switches: 1, CPUs: 40, MemoryGB: 256}} {
		if path := dataFile(t, "tiresias/"+file+".csv", fmt.Sprint(want)); path != "" {
			if got, err := ReadNodeGroups(path); err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("%s: %v, %v", file, got, err)
			}
		}
	}
}

// BenchmarkReadPhilly reads the 82,247 jobs of the Philly csv, packed.
func BenchmarkReadPhilly(b *testing.B) {
	path := dataFile(b, "philly/philly_jobs.csv.gz", "the time to read it")
	for b.Loop() {
		if path == "" {
			continue
		}
		benchmarkRead(b, path, 82_247)
	}
}

// BenchmarkReadComb reads a million generated jobs, with deadlines or without.
func BenchmarkReadComb(b *testing.B) {
	for _, survey := range []bool{false, true} {
		b.Run(fmt.Sprintf("survey=%v", survey), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "t.jsonl")
			w, err := Create(path, Comb)
			if err != nil {
				b.Fatal(err)
			}
			jobs, err := Generate(Spec{Kind: "philly", Jobs: 1_000_000, Seed: 1, Survey: survey})
			if err != nil {
				b.Fatal(err)
			}
			for j := range jobs {
				if err := w.Write(&j); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				benchmarkRead(b, path, 1_000_000)
			}
		})
	}
}

func benchmarkRead(b *testing.B, path string, want int) {
	r, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	n, last := 0, model.Time(0)
	for j, err := range r.InOrder() {
		if err != nil {
			b.Fatal(err)
		}
		n++
		last = j.Submit
	}
	if n != want || last <= 0 {
		b.Fatalf("%d jobs", n)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkGenerate makes a million jobs for a load, which draws each twice.
func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		jobs, err := Generate(Spec{Kind: "philly", Jobs: 1_000_000, Seed: 1, LoadMilli: 800, Cluster: []NodeGroup{{Nodes: 4096, GPUs: 8}}, Survey: true})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for range jobs {
			n++
		}
		if n != 1_000_000 {
			b.Fatal(n)
		}
	}
}
