package metrics

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// drawing is one chart of a report with the file that it also goes to.
type drawing struct{ file, svg string }

func (r *Result) drawings() []drawing {
	return []drawing{{"jct.svg", r.jctChart()}, {"utilization.svg", r.useChart()}, {"queue.svg", r.queueChart()},
		{"waits.svg", r.waitsChart()}, {"jobs.svg", r.ganttChart()}}
}

// WriteDir writes summary.json, timeline.csv, report.html and the charts as SVG
// files into a folder that exists.
func (r *Result) WriteDir(dir string) error {
	ds := r.drawings()
	files := []output{{"summary.json", r.Summary.WriteJSON}, {"timeline.csv", r.Timeline.WriteCSV},
		{"report.html", func(w io.Writer) error { return r.report(w, ds) }}}
	for _, d := range ds {
		files = append(files, output{d.file, func(w io.Writer) error {
			_, err := io.WriteString(w, file(d.svg))
			return err
		}})
	}
	for _, f := range files {
		if err := f.to(dir); err != nil {
			return err
		}
	}
	return nil
}

// FileNames are the files that WriteDir writes.
func FileNames() []string {
	return []string{"summary.json", "timeline.csv", "report.html", "jct.svg", "utilization.svg", "queue.svg", "waits.svg", "jobs.svg"}
}

// output is a file and the function that writes it.
type output struct {
	name  string
	write func(io.Writer) error
}

func (o output) to(dir string) error {
	var b bytes.Buffer
	if err := o.write(&b); err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	return os.WriteFile(filepath.Join(dir, o.name), b.Bytes(), 0o666)
}

// WriteReport writes report.html: one file that needs no network and no script.
func (r *Result) WriteReport(w io.Writer) error { return r.report(w, r.drawings()) }

func (r *Result) report(w io.Writer, ds []drawing) error {
	s := &r.Summary
	p := newPage("Report: " + s.Policy)
	p.addf("<h1>%s</h1>\n", esc(s.Policy))
	state := fmt.Sprintf("%d of %d jobs finished", s.Finished, s.Jobs)
	if s.Finished > 0 {
		state += fmt.Sprintf("; %s from the first submission to the last end", spanOf(s.Makespan))
	}
	p.addf(`<p class="lead">%s</p>`+"\n", esc(state))
	if r.About != "" {
		p.addf(`<p class="note">%s</p>`+"\n", esc(r.About))
	}
	p.cards(s)
	for _, d := range ds {
		p.figure(d.svg)
	}
	p.vcTable(s)
	p.addf(`<p class="note">Every figure is defined in docs/metrics.md. Times over the run are means of rows that are %s s wide.</p>`, appendSeconds(nil, int64(r.Timeline.Width)))
	return p.writeTo(w)
}

// page is an HTML page.
type page struct{ b strings.Builder }

func newPage(title string) *page {
	p := &page{}
	p.addf("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	p.addf("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n")
	p.addf("<title>%s</title>\n<style>%s%s</style>\n</head>\n<body>\n<main>\n", esc(title), chartStyle, pageStyle)
	return p
}

const pageStyle = `body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}` +
	`main{max-width:960px;margin:0 auto;padding:32px 24px 64px}h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}` +
	`h2{font-size:17px;margin:40px 0 8px}.lead{color:var(--mute);margin:4px 0 24px}.note{color:var(--mute);font-size:13px}` +
	`.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:1px;background:var(--rule);border:1px solid var(--rule);border-radius:8px;overflow:hidden;margin:0}` +
	`.cards div{background:var(--paper);padding:12px 14px}.cards dt{color:var(--mute);font-size:13px}.cards dd{margin:0;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}` +
	`@media(max-width:640px){.cards{grid-template-columns:repeat(2,1fr)}}figure{margin:40px 0 0}figure svg{display:block;width:100%;height:auto}` +
	`.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}caption{text-align:left;font-weight:600;font-size:15px;margin:40px 0 8px}` +
	`th,td{padding:5px 10px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}` +
	`th{color:var(--mute);font-weight:600}th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:90px}tbody th{color:var(--ink)}` +
	`.best{font-weight:700;color:var(--c2)}.diff{color:var(--mute);font-size:12px}`

func (p *page) addf(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func (p *page) writeTo(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString(p.b.String())
	out.WriteString("\n</main>\n</body>\n</html>\n")
	return out.Flush()
}

func (p *page) figure(svg string) { p.addf("<figure>%s</figure>\n", svg) }

// cards are the main figures, at the top of the page.
func (p *page) cards(s *Summary) {
	p.addf(`<dl class="cards">`)
	cards := [][2]string{
		{"mean completion", spanOf(s.JCTAvg)}, {"median", spanOf(s.JCTP50)}, {"95th percentile", spanOf(s.JCTP95)}, {"99th percentile", spanOf(s.JCTP99)},
		{"mean queueing", spanOf(s.QueueAvg)}, {"of it, guarantee used up", spanOf(s.QueueFairShareAvg)}, {"of it, while enough was free", spanOf(s.QueueFragmentationAvg)},
		{"GPUs in use", percent(s.GPUUtilization)}, {"at full speed", percent(s.GPUEffective)}, {"idle, fragmented", percent(s.Fragmentation)},
		{"preemptions", fmt.Sprint(s.Preemptions)}, {"migrations", fmt.Sprint(s.Migrations)}, {"worst fairness, rho", s.RhoMax.round()},
		{"Jain's index of rho", s.JainRho.round()}, {"missed deadlines", percent(s.SLOMissRate)}, {"best-effort latency", spanOf(s.BELatencyAvg)},
	}
	for _, c := range []struct {
		title string
		hours Number
	}{{"GPU-hours saved by early stops", s.EarlySaved}, {"GPU-hours saved by first attempts", s.ProbeSaved}, {"GPU-hours of the profiler", s.Profiler}} {
		if c.hours > 0 {
			cards = append(cards, [2]string{c.title, c.hours.round()})
		}
	}
	for _, c := range cards {
		p.addf("<div><dt>%s</dt><dd>%s</dd></div>", esc(c[0]), esc(c[1]))
	}
	p.addf("</dl>\n")
}

// round writes a figure with three digits.
func (n Number) round() string {
	if !n.Defined() {
		return "-"
	}
	return fmt.Sprintf("%.3g", float64(n))
}

// table writes rows of cells; the first of each is its head.
func (p *page) table(caption string, head []string, rows [][]string) {
	p.addf("<div class=\"wide\"><table><caption>%s</caption><thead><tr>", esc(caption))
	for _, h := range head {
		p.addf(`<th scope="col">%s</th>`, esc(h))
	}
	p.addf("</tr></thead><tbody>\n")
	for _, r := range rows {
		for i, c := range r {
			if i == 0 {
				p.addf(`<tr><th scope="row">%s</th>`, esc(clip(c, 60)))
				continue
			}
			p.addf("<td>%s</td>", esc(c))
		}
		p.addf("</tr>\n")
	}
	if len(rows) == 0 {
		p.addf(`<tr><td colspan="%d">none</td></tr>`, len(head))
	}
	p.addf("</tbody></table></div>\n")
}

// vcTable lists the VCs that had jobs.
func (p *page) vcTable(s *Summary) {
	names := make([]string, 0, len(s.VC))
	for name, f := range s.VC { // sorted below
		if f.Jobs > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var rows [][]string
	for _, name := range names {
		f := s.VC[name]
		rows = append(rows, []string{name, fmt.Sprintf("%d / %d", f.Finished, f.Jobs), spanOf(f.JCTAvg), spanOf(f.JCTP95), spanOf(f.QueueAvg),
			spanOf(f.QueueFairShareAvg), spanOf(f.QueueFragmentationAvg), fmt.Sprint(f.Preemptions), percent(f.GPUUtilization), f.RhoMax.round(), percent(f.SLOMissRate)})
	}
	p.table("Virtual clusters", []string{"VC", "finished", "mean", "p95", "queueing", "used up", "enough free", "preempted", "use of quota", "max rho", "missed"}, rows)
}
