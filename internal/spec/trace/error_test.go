package trace

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/combsched/comb/internal/core/model"
)

const (
	phillyHead  = "job_id,submit_s,duration_s,num_gpus,vc\n"
	chronusHead = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type\n"
	heliosHead  = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,duration\n"
	podHead     = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	combHead    = "{\"comb_trace\":1}\n"
)

// rowErrors are mistakes of one row: the text, and the error of its last row. The
// row before it is good, so a lenient reader gets that one and counts the other.
var rowErrors = []struct{ name, text, want, kind string }{
	{"sizes", combHead + `{"id":"1","submit_us":0,"gpus":1}` + "\n" + `{"id":"x","submit_us":0,"gpus":2,"gpus_min":1}`, `job "x": gpus_min and gpus_max come together, with gpus between them`, "contradiction"},
	{"sizes around", combHead + `{"id":"1","submit_us":0,"gpus":1}` + "\n" + `{"id":"x","submit_us":0,"gpus":9,"gpus_min":1,"gpus_max":8}`, `job "x": gpus_min and gpus_max come together, with gpus between them`, "contradiction"},
	{"loss rises", combHead + `{"id":"1","submit_us":0,"gpus":1}` + "\n" + `{"id":"x","submit_us":0,"gpus":1,"loss":{"first":1,"last":2,"half_us":1}}`, `job "x": a loss falls from first to last, and has half_us above 0`, "contradiction"},
	{"loss for ever", combHead + `{"id":"1","submit_us":0,"gpus":1}` + "\n" + `{"id":"x","submit_us":0,"gpus":1,"loss":{"first":2,"last":1}}`, `job "x": a loss falls from first to last, and has half_us above 0`, "contradiction"},
	{"letters", phillyHead + "1,0,1,1,a\n2,x,1,1,a", `f:3:3: submit_s: "x" is not a number`, "not a number"},
	{"nan", phillyHead + "1,0,1,1,a\n2,0,nan,1,a", `f:3:5: duration_s: "nan" is not a number`, "not a number"},
	{"inf", phillyHead + "1,0,1,1,a\n2,0,1e999,1,a", `f:3:5: duration_s: "1e999" is not a number`, "not a number"},
	{"hex", phillyHead + "1,0,1,1,a\n2,0,0x10,1,a", `f:3:5: duration_s: "0x10" is not a number`, "not a number"},
	{"two points", phillyHead + "1,0,1,1,a\n2,0,1.2.3,1,a", `"1.2.3" is not a number`, "not a number"},
	{"sign", phillyHead + "1,0,1,1,a\n2,0,-,1,a", `"-" is not a number`, "not a number"},
	{"empty", phillyHead + "1,0,1,1,a\n2,0,,1,a", "f:3:5: duration_s: is empty; want a number", "no value"},
	{"negative", phillyHead + "1,0,1,1,a\n2,-5,1,1,a", "f:3:3: submit_s: -5 is out of range; want 0 to 3153600000", "out of range"},
	{"overflow", phillyHead + "1,0,1,1,a\n2,99999999999999999999,1,1,a", "submit_s: 99999999999999999999 is out of range", "out of range"},
	{"scaled overflow", phillyHead + "1,0,1,1,a\n2,9999999999999999,1,1,a", "submit_s: 9999999999999999 is out of range", "out of range"},
	{"exponent overflow", phillyHead + "1,0,1,1,a\n2,1e300,1,1,a", "submit_s: 1e300 is out of range", "out of range"},
	{"GPUs", phillyHead + "1,0,1,1,a\n2,0,1,1048577,a", "f:3:7: num_gpus: 1048577 is out of range; want 0 to 1048576", "out of range"},
	{"half a GPU", phillyHead + "1,0,1,1,a\n2,0,1,1.5,a", `f:3:7: num_gpus: "1.5" is not a whole number`, "not a number"},
	{"no id", phillyHead + "1,0,1,1,a\n,0,1,1,a", "f:3:1: job_id: is empty; every job needs an id", "no value"},
	{"few columns", phillyHead + "1,0,1,1,a\n2,0,1,1", "f:3: the line has 4 columns, not 5; a text with a separator in it needs quotes", "wrong number of columns"},
	{"many columns", phillyHead + "1,0,1,1,a\n" + strings.Repeat(",", 300), "f:3:257: more than 256 columns", "wrong number of columns"},
	{"open quote", phillyHead + "1,0,1,1,a\n2,0,1,1,\"a", "f:3:9: the closing quote is missing", "bad quotes"},
	{"text behind quote", phillyHead + "1,0,1,1,a\n2,0,1,1,\"a\"b", "f:3:9: the closing quote is missing or followed by text", "bad quotes"},
	{"no UTF-8", phillyHead + "1,0,1,1,a\n2,0,1,1,\xff", `f:3:9: vc: is no valid UTF-8: "\xff"; convert the file`, "bad text"},
	{"control", phillyHead + "1,0,1,1,a\n2,0,1,1,a\x1b[31m", `f:3:9: vc: holds the control character '\x1b'; remove it`, "bad text"},
	{"long text", phillyHead + "1,0,1,1,a\n2,0,1,1," + strings.Repeat("a", 5000), "f:3:9: vc: has 5000 bytes; want at most 4096", "text too long"},
	{"long line", phillyHead + "1,0,1,1,a\n" + strings.Repeat("a", 3<<20), "f:3: the line is longer than 1048576 bytes", "line too long"},

	{"class", chronusHead + "1,v,1,0,1,m,1,1,0,10,1,best\n2,v,1,0,1,m,1,1,0,10,1,bestest", `f:3:24: job_type: "bestest" is no class of jobs; want strict, soft or best`, "unknown word"},
	{"class and flag", chronusHead + "1,v,1,0,1,m,1,1,0,10,1,best\n2,v,1,0,1,m,1,1,9,10,1,strict", `f:3:22: best_effort: is 1, but job_type is "strict"; correct one of them`, "contradiction"},
	{"rewards", chronusHead + "1,v,1,0,1,m,1,1,0,10,1,best\n2,v,1,0,1,m,1,1,5-6,10,0,soft", "f:3:21: expect_value_list: has 1 rewards for 2 deadlines; give each deadline one", "contradiction"},
	{"deadlines fall", chronusHead + "1,v,1,0,1,m,1,1,0,10,1,best\n2,v,1,0,1,m,1,1,5-5,10-8,0,soft", "f:3:17: expect_time_list: deadlines must rise and their rewards must not", "contradiction"},
	{"no deadline", chronusHead + "1,v,1,0,1,m,1,1,0,10,1,best\n2,v,1,0,1,m,1,1,x,10,0,soft", `f:3:17: expect_time_list: "x" is no deadline`, "not a number"},
	{"no reward", chronusHead + "1,v,1,0,1,m,1,1,0,10,1,best\n2,v,1,0,1,m,1,1,5,x,0,soft", `f:3:19: expect_value_list: "x" is no reward`, "not a number"},

	{"date", heliosHead + "1,u,v,1,1,1,COMPLETED,2020-06-09 18:41:01,5\n2,u,v,1,1,1,COMPLETED,2020-06-31 18:41:01,5", `f:3:23: submit_time: "2020-06-31 18:41:01" is no date; want YYYY-MM-DD HH:MM:SS`, "no date"},
	{"seconds as date", heliosHead + "1,u,v,1,1,1,COMPLETED,2020-06-09 18:41:01,5\n2,u,v,1,1,1,COMPLETED,1234,5", `submit_time: "1234" is no date`, "no date"},

	{"ends first", podHead + "p,1,1,1,1000,,LS,Running,1,9,2\nq,1,1,1,1000,,LS,Running,1,9,12", "f:3:28: deletion_time: is before scheduled_time; correct one of them", "contradiction"},
	{"part of a GPU", podHead + "p,1,1,1,1000,,LS,Running,1,9,2\nq,1,1,1,1001,,LS,Running,1,9,2", "f:3:9: gpu_milli: 1001 is out of range; want 0 to 1000", "out of range"},

	{"task ends first", "a,w,1,Running,5,9,1,1,100,T4\nb,w,1,Running,9,5,1,1,100,T4", "f:2:17: end_time: is before start_time; correct one of them", "contradiction"},
	{"instances", "a,w,1,Running,5,9,1,1,100,T4\nb,w,0,Running,5,9,1,1,100,T4", "f:2:5: inst_num: 0 is out of range; want 1 to 1048576", "out of range"},
	{"too many GPUs", "a,w,1,Running,5,9,1,1,100,T4\nb,w,1048576,Running,5,9,1,1,200,T4", "f:2:5: inst_num: the job would have 2097152 GPUs; want at most 1048576", "out of range"},

	{"no throughput", "A3C\tc\tw\ts\t0\t8\t1\t1\t-1\t0\nA3C\tc\tw\ts\t0\t8\t2\t1\t-1\t0", `f:2:1: job_type: the table has no throughput of "A3C" with 2 GPUs on v100; name another GPU type`, "no throughput"},
	{"century", "A3C\tc\tw\ts\t0\t8\t1\t1\t-1\t0\nA3C\tc\tw\ts\t0\t999999999999\t1\t1\t-1\t0", "f:2:13: total_steps: would run for more than a century on v100", "out of range"},

	{"comb: no object", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n[1]", `f:3:1: want {, found "[1]"`, "bad JSON"},
	{"comb: cut", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"id\":\"b\",", "f:3:11: the JSON ends too early: want a text in quotes", "bad JSON"},
	{"comb: behind", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"id\":\"b\",\"submit_us\":0,\"gpus\":1} x", `f:3:35: want the end of the value, found "x"`, "bad JSON"},
	{"comb: key", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"id\":\"b\",\"gpu\":1}", "f:3:17: gpu: there is no such key; did you mean gpus?", "unknown key"},
	{"comb: inner key", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"id\":\"b\",\"attempts\":[{\"start\":1}]}", "f:3:32: attempts.start: there is no such key; known are duration_us, gpus, nodes, start_us", "unknown key"},
	{"comb: type", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"id\":7}", `f:3:7: id: want a text in quotes, found "7}"`, "bad JSON"},
	{"comb: fraction", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"gpus\":1.5}", `f:3:9: gpus: "1.5" is not a whole number`, "not a number"},
	{"comb: negative", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"submit_us\":-1}", "f:3:14: submit_us: -1 is out of range; want 0 to", "out of range"},
	{"comb: huge", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"gpus\":9999999999999999999999}", "f:3:9: gpus: 9999999999999999999999 is out of range; want 1 to 1048576", "out of range"},
	{"comb: no id", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"gpus\":1}", "f:3:1: the job has no id", "no value"},
	{"comb: no gpus", combHead + "{\"id\":\"a\",\"submit_us\":0,\"gpus\":1}\n{\"id\":\"b\"}", `f:3:1: job "b" has no gpus; want at least 1`, "no value"},
	{"comb: order", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"b\",\"submit_us\":4,\"gpus\":1}", `f:3:1: job "b" is submitted before the one above it; sort the lines by submit_us`, "out of order"},
	{"comb: word", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"class\":\"hard\"}", `f:3:10: class: "hard" is none of [strict soft besteffort]`, "unknown word"},
	{"comb: best effort", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"b\",\"submit_us\":5,\"gpus\":1,\"class\":\"besteffort\",\"deadlines\":[{\"after_us\":1,\"value\":1}]}", "has deadlines and is besteffort; remove one of the two", "contradiction"},
	{"comb: deadlines", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"b\",\"submit_us\":5,\"gpus\":1,\"deadlines\":[{\"after_us\":2,\"value\":1},{\"after_us\":3,\"value\":2}]}", `deadlines of job "b": they must rise and their values must not`, "contradiction"},
	{"comb: escape", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"\\x\"}", `f:3:8: id: an unknown escape; JSON has`, "bad JSON"},
	{"comb: raw control", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"\t\"}", `f:3:8: id: a control character inside a text; write \u0009`, "bad JSON"},
	{"comb: written control", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"\\u001b\"}", `f:3:8: id: holds the control character '\x1b'; remove it`, "bad text"},
	{"comb: open text", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"x", "f:3:7: id: the closing quote of this text is missing", "bad JSON"},
	{"comb: long list", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"skus\":[" + strings.Repeat(`"x",`, 4096) + `"x"]}`, "skus: more than 4096 entries", "list too long"},

	{"comb: key twice", combHead + "{\"id\":\"a\",\"submit_us\":5,\"gpus\":1}\n{\"id\":\"b\",\"submit_us\":5,\"gpus\":1,\"gpus\":8}", "f:3:34: gpus: the object has this key twice; remove one of the two", "key twice"},
	{"philly: date", "[{\"status\":\"Pass\",\"jobid\":\"a\",\"submitted_time\":\"2017-10-07 01:11:39\",\"attempts\":[{\"detail\":[{\"ip\":\"m\",\"gpus\":[\"g\"]}]}]},\n\n{\"jobid\":\"b\",\n  \"attempts\":[{\"start_time\":\"soon\"}]}]", `f:4:29: attempts.start_time: "soon" is no date`, "no date"},
	{"philly: status", "[{\"status\":\"Pass\",\"jobid\":\"a\",\"submitted_time\":\"2017-10-07 01:11:39\",\"attempts\":[{\"detail\":[{\"ip\":\"m\",\"gpus\":[\"g\"]}]}]},\n{\"status\":\"Died\"}]", `f:2:11: status: "Died" is no status; want Pass, Failed or Killed`, "unknown word"},
	{"philly: no id", "[{\"status\":\"Pass\",\"jobid\":\"a\",\"submitted_time\":\"2017-10-07 01:11:39\",\"attempts\":[{\"detail\":[{\"ip\":\"m\",\"gpus\":[\"g\"]}]}]},\n{\"attempts\":[]}]", "f:2:1: the job has no jobid", "no value"},
	{"philly: no time", "[{\"status\":\"Pass\",\"jobid\":\"a\",\"submitted_time\":\"2017-10-07 01:11:39\",\"attempts\":[{\"detail\":[{\"ip\":\"m\",\"gpus\":[\"g\"]}]}]},\n{\"jobid\":\"b\",\"submitted_time\":null}]", `f:2:1: job "b" has no submitted_time`, "no value"},
	{"philly: one line", `[{"jobid":"a","submitted_time":"2017-10-07 01:11:39","attempts":[{"detail":[{"gpus":["g"]}]}]}, {"jobid":7}]`, `f:1:106: jobid: want a text in quotes, found "7}"`, "bad JSON"},
	{"philly: deep", "[{\"status\":\"Pass\",\"jobid\":\"a\",\"submitted_time\":\"2017-10-07 01:11:39\",\"attempts\":[{\"detail\":[{\"ip\":\"m\",\"gpus\":[\"g\"]}]}]},\n{\"x\":" + strings.Repeat("[", 99) + strings.Repeat("]", 99) + "}]", "more than 32 values inside each other", "bad JSON"},
}

// TestRowErrors reads each mistake strictly, where it is told with its place, and
// leniently, where it is counted and the row before it is there.
func TestRowErrors(t *testing.T) {
	for _, c := range rowErrors {
		t.Run(c.name, func(t *testing.T) {
			r, err := NewReader("f", strings.NewReader(c.text), gavelOptions(t))
			if err != nil {
				t.Fatal(err)
			}
			var errs []error
			for _, err := range r.Jobs() {
				if err != nil {
					errs = append(errs, err)
				}
			}
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("%v, want %s", errs, c.want)
			}
			o := gavelOptions(t)
			o.Lenient = true
			if r, err = NewReader("f", strings.NewReader(c.text+"\n"), o); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, err := range r.Jobs() {
				if err != nil {
					t.Error(err)
				}
				n++
			}
			if n != 1 || fmt.Sprint(r.Bad()) != "[{"+c.kind+" 1}]" {
				t.Errorf("lenient: %d jobs, bad %v, want %s", n, r.Bad(), c.kind)
			}
		})
	}
}

// fileErrors are mistakes that end the reading, also of a lenient reader.
var fileErrors = []struct{ name, text, want string }{
	{"empty", "", "f: the file is empty"},
	{"blank", " \n\n", "f: the file is empty"},
	{"unknown", "a,b,c\n1,2,3\n", `f:1: cannot tell the format from "a,b,c"; name it with --format: auto, alibaba2020`},
	{"missing column", "job_id,num_gpu,submit_time,expect_time_list,job_type\n", "f:1: the header lacks user, iterations, model_name, duration, interval, expect_value_list, best_effort; is this the right format?"},
	{"comb version", "{\"comb_trace\":2}\n", "f:1: this is version 2 of the comb format; this program reads version 1"},
	{"comb header", "{\"comb_trace\":\"x\"}\n", `f:1:15: comb_trace: want a number, found "\"x\"}"`},
	{"comb version 0", "{\"comb_trace\":0}\n", `f:1: the first line must be {"comb_trace":1}`},
	{"no job", phillyHead, "f: the file has no job; name a file with jobs that use GPUs"},
	{"comb: no job", combHead, "f: the file has no job"},
	{"philly: no job", `[]`, "f:1: cannot tell the format"},
	{"no job with a GPU", phillyHead + "1,0,1,0,a\n2,0,1,0,a\n", "f: the file has no job; 2 passed over (no GPU); name"},
	{"column twice", "job_id,submit_s,duration_s,num_gpus,vc,submit_s\na,1,2,3,v,9\n", "f:1:40: submit_s: the header names this column twice; remove one of the two"},
	{"no vc", "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,duration\n", "f:1: the header lacks vc; --vc NAME puts all jobs into one virtual cluster"},
	{"zip", "PK\x03\x04\x14\x00", "f: the file is a zip archive: unpack it, and name the file with the jobs in it (unzip)"},
	{"bzip2", "BZh91AY&SY\x00\x01", "f: the file is packed with bzip2: unpack it"},
	{"xz", "\xfd7zXZ\x00\x00", "f: the file is packed with xz: unpack it"},
	{"zstd", "\x28\xb5\x2f\xfd\x04", "f: the file is packed with zstd: unpack it"},
	{"7z", "7z\xbc\xaf\x27\x1c\x00\x04", "f: the file is a 7z archive: unpack it"},
	{"parquet", "PAR1\x15\x04", "f: the file is a Parquet table: write it as CSV"},
	{"UTF-16", utf16Text(binary.LittleEndian, phillyHead), "f: the file is UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"},
	{"UTF-16, big end first", utf16Text(binary.BigEndian, phillyHead), "f: the file is UTF-16: convert it"},
	{"UTF-16 without a mark", utf16Text(binary.LittleEndian, phillyHead)[2:], "f: the file is no text in UTF-8: it holds zero bytes; unpack or convert it"},
	{"tar", tarOf(phillyHead + "1,0,1,1,a\n"), "f: the file is a tar archive: unpack it, and name the file with the jobs in it (tar -xf)"},
	{"tar.gz", gzipOf(tarOf(phillyHead + "1,0,1,1,a\n2,0,1,1,a\n")), "f: the file is a tar archive: unpack it"},
	{"gzip twice", gzipOf(gzipOf(phillyHead + "1,0,1,1,a\n")), "f: the file is packed with gzip twice: unpack it"},
	{"not gzip", "\x1f\x8bxxxxxxxxxxxxxx", "f: the file begins like gzip but is not"},
	{"cut gzip", cutGzip(), "the gzip data end too early: the file is not whole; fetch it again"},
	{"philly: no comma", `[{"jobid":"a","attempts":[],"submitted_time":"2017-10-07 01:11:39"} {"jobid":"b"}]`, "f:1:69: a comma between two entries is missing"},
	{"philly: comma", `[{"jobid":"a","attempts":[],"submitted_time":"2017-10-07 01:11:39"},]`, "f:1:69: a comma before the end of the array; remove it"},
	{"philly: number", `[7, {"jobid":"a","attempts":[]}]`, `f:1:2: want an entry in { }, found "7"`},
	{"philly: cut", "[{\"jobid\":\"a\",\"attempts\":[],\n", "f:2:1: the file ends inside the array: it is not whole"},
	{"philly: behind", "[{\"jobid\":\"a\",\"attempts\":[],\"submitted_time\":\"2017-10-07 01:11:39\"}]\n!", `f:2:1: want nothing behind the array, found "!"`},
	{"philly: huge", "[{\"jobid\":\"a\",\"attempts\":[\n" + strings.Repeat(strings.Repeat(" ", 1<<19)+"\n", 20), "f:18:1: the entry that begins on line 1 has more than 8388608 bytes"},
}

func cutGzip() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, phillyHead)
	for i := range 5000 {
		fmt.Fprintf(z, "%d,%d,%d,1,a\n", i, i, i*7919%1000)
	}
	z.Close()
	return b.String()[:b.Len()/2]
}

// utf16Text is a text in UTF-16 with its mark.
func utf16Text(order binary.AppendByteOrder, text string) string {
	b := order.AppendUint16(nil, 0xfeff)
	for _, c := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, c)
	}
	return string(b)
}

func gzipOf(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, text)
	z.Close()
	return b.String()
}

// tarOf is an archive with a file in a folder, as traces are published.
func tarOf(text string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "trace/jobs.csv", Mode: 0o644, Size: int64(len(text))})
	fmt.Fprint(w, text)
	w.Close()
	return b.String()
}

// TestOtherLineEnds reads a table whose lines end in CR alone, and in CR LF.
func TestOtherLineEnds(t *testing.T) {
	text := "\xef\xbb\xbf" + phillyHead + "1,0,1,1,a\n2,5,1,1,a\n"
	for _, end := range []string{"\r", "\r\n"} {
		r, err := NewReader("f", strings.NewReader(strings.ReplaceAll(text, "\n", end)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for j, err := range r.Jobs() {
			if n++; err != nil || j.VC != "a" {
				t.Errorf("%q: %v %v", end, j, err)
			}
		}
		if n != 2 {
			t.Errorf("%q: %d jobs", end, n)
		}
	}
	if err := readAll(strings.ReplaceAll(phillyHead+"1,0,1,1,a\nx,y,z\n", "\n", "\r"), Options{}); err == nil || !strings.Contains(err.Error(), "f:3: the line has 3 columns") {
		t.Error(err)
	}
}

// TestDates reads dates with an offset, which are instants, and refuses a file that has
// some with and some without.
func TestDates(t *testing.T) {
	head := "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
	row := func(id, at string) string {
		return id + ",u1,1,8,64,Other,COMPLETED," + at + ",,,60,5,480\n"
	}
	for _, c := range []struct {
		second string
		want   model.Time // after the first
		wrong  string
	}{
		{"2023-03-01 00:00:00+00:00", 60 * 60, ""},
		{"2023-03-01T09:00:00+0800", 2 * 60 * 60, ""},
		{"2023-02-28 17:30:00-0530", 0, ""},
		{"2023-03-01T00:00:01Z", 60*60 + 1, ""},
		{"2023-03-01 00:00:00", 0, "is not like the first date of the file: give all dates an offset to UTC, or none"},
		{"2023-03-01 00:00:00+25:00", 0, "is no date; want YYYY-MM-DD HH:MM:SS, perhaps with an offset such as +08:00 or Z"},
		{"2023-03-01 00:00:00.5", 0, "is no date"},
	} {
		r, err := NewReader("f", strings.NewReader(head+row("a", "2023-03-01 07:00:00+08:00")+row("b", c.second)), Options{VC: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		var last Job
		for j, e := range r.Jobs() {
			last, err = j, errors.Join(err, e)
		}
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %s", c.second, err, c.wrong)
			}
		} else if err != nil || last.VC != "acme" || last.Submit != c.want*model.Time(model.Second) {
			t.Errorf("%s: %v in %q, %v", c.second, last.Submit, last.VC, err)
		}
	}
}

// TestOtherTraceBesideJobTable reads a trace twice, in a folder with the job table of
// another one that nothing names.
func TestOtherTraceBesideJobTable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.csv")
	for name, text := range map[string]string{"jobs.csv": phillyHead + "1,5,1,1,a\n2,0,1,1,a\n", "pai_job_table.csv": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for _, err := range r.InOrder() {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 2 || JobTable(path, Options{}) != "" {
		t.Errorf("%d jobs, job table %q", n, JobTable(path, Options{}))
	}
	if _, err := Open(path, Options{JobTable: path}); err == nil || !strings.Contains(err.Error(), "leave out --job-table") {
		t.Error(err)
	}
}

func TestFileErrors(t *testing.T) {
	for _, c := range fileErrors {
		for _, lenient := range []bool{false, true} {
			if err := readAll(c.text, Options{Lenient: lenient}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
		}
	}
}

// readAll gives all errors of a text.
func readAll(text string, o Options) error {
	r, err := NewReader("f", strings.NewReader(text), o)
	if err != nil {
		return err
	}
	for _, e := range r.Jobs() {
		err = errors.Join(err, e)
	}
	return err
}

// TestOptions checks what is wrong outside the file.
func TestOptions(t *testing.T) {
	gavel, err := os.ReadFile(sample("gavel.trace"))
	if err != nil {
		t.Fatal(err)
	}
	with := gavelOptions(t)
	cases := []struct {
		name, text string
		o          Options
		want       string
	}{
		{"format", phillyHead, Options{Format: "phily"}, `there is no trace format "phily"; want one of auto, alibaba2020, alibaba2023, chronus, comb, gavel, helios, philly, philly-csv, tiresias`},
		{"no table", string(gavel), Options{}, "name a table of throughputs and the GPU type that run times are for (--throughputs FILE --gpu v100)"},
		{"GPU type", string(gavel), Options{Throughputs: with.Throughputs, GPU: "v10"}, `the table of throughputs has no GPU type "v10"; did you mean v100?`},
		{"job table", "a,w,1,Running,5,9,1,1,100,T4\n", Options{JobTable: "not-there.csv"}, "cannot read the job table: open not-there.csv"},
		{"size", phillyHead + strings.Repeat("1,0,1,1,a\n", 100), Options{MaxBytes: 200}, "f:18: the file has more than 200 bytes after unpacking; split it"},
		{"wrong format", phillyHead, Options{Format: Tiresias}, "f:1: the header lacks num_gpu, submit_time, duration; is this the right format?"},
	}
	for _, c := range cases {
		if err := readAll(c.text, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "is a folder; name the file with the jobs in it") {
		t.Error(err)
	}
	if _, err := Open("not-there", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	bad := filepath.Join(t.TempDir(), "pai_job_table.csv")
	if err := os.WriteFile(bad, []byte("a,i,u,Terminated,x,9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = NewReader("f", strings.NewReader("a,w,1,Running,5,9,1,1,100,T4\n"), Options{JobTable: bad, Lenient: true})
	if err == nil || !strings.Contains(err.Error(), `:1:18: start_time: "x" is not a number`) {
		t.Error(err)
	}
}

// TestBomb checks that a small file that unpacks to much is stopped.
func TestBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, phillyHead)
	for range 64 {
		fmt.Fprint(z, strings.Repeat("1,0,1,1,a\n", 10_000))
	}
	z.Close()
	r, err := NewReader("bomb", &b, Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range r.Jobs() {
		if n++; e != nil {
			err = e
		}
	}
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes after unpacking") || n > 110_000 {
		t.Errorf("%d jobs, %v", n, err)
	}
}

// TestLoadTellsSeveral checks that several bad rows are told at once, and that a
// reader cannot be used twice.
func TestLoadTellsSeveral(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(phillyHead+strings.Repeat("1,x,1,1,a\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path, Options{}); err == nil || strings.Count(err.Error(), "\n") != 9 || !strings.Contains(err.Error(), "t.csv:11:3") {
		t.Error(err)
	}
	r, err := Open(path, Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, err := range r.Jobs() {
		if err == nil || !strings.HasSuffix(err.Error(), "t.csv: the file has no job; 20 passed over (not a number); name a file with jobs that use GPUs") {
			t.Error(err)
		}
	}
	n := 0
	for _, err := range r.Jobs() {
		if n++; err == nil || !strings.Contains(err.Error(), "read already") {
			t.Error(err)
		}
	}
	if n != 1 || fmt.Sprint(r.Bad()) != "[{not a number 20}]" {
		t.Error(n, r.Bad())
	}
}
