package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/test/testkit"
)

// glass is what a terminal shows of what was written to it: it knows line ends, carriage returns,
// cursor up and erasing to the end, and wraps.
type glass struct {
	rows     []string
	row, col int
	width    int
	fault    string
}

// read shows what comes until there is no more.
func (g *glass) read(from io.Reader, mu *sync.Mutex) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		mu.Lock()
		g.write(string(buf[:n]))
		mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (g *glass) write(text string) {
	for text != "" {
		if seq, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(seq, func(r rune) bool { return r >= 0x40 })
			n, _ := strconv.Atoi(seq[:end])
			switch seq[end] {
			case 'A':
				if g.row -= n; g.row < 0 {
					g.fault, g.row = "the cursor leaves the terminal", 0
				}
			case 'J':
				g.rows = append(g.rows[:g.row], g.rows[g.row][:min(g.col, len(g.rows[g.row]))])
			case 'm':
			default:
				g.fault = "it understands no " + seq[:end+1]
			}
			text = seq[end+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		switch r {
		case '\r':
			g.col = 0
		case '\n':
			g.row++
			g.at()
		default:
			g.put(r)
		}
	}
}

func (g *glass) at() {
	for len(g.rows) <= g.row {
		g.rows = append(g.rows, "")
	}
}

func (g *glass) put(r rune) {
	if g.col >= g.width {
		g.row, g.col = g.row+1, 0
	}
	g.at()
	line := []rune(g.rows[g.row])
	for len(line) <= g.col {
		line = append(line, ' ')
	}
	line[g.col] = r
	g.rows[g.row], g.col = string(line), g.col+1
}

// shows are the rows with something on them.
func (g *glass) shows() []string {
	var out []string
	for _, row := range g.rows {
		if row = strings.TrimRight(row, " "); row != "" {
			out = append(out, row)
		}
	}
	return out
}

// openTerminal is a new pseudo-terminal: its keeper's side, and the side of programs.
func openTerminal(t *testing.T, columns, rows uint16) (keeper, side *os.File) {
	t.Helper()
	keeper, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keeper.Close() })
	n, err := unix.IoctlGetInt(int(keeper.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keeper.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	return keeper, side
}

// progressJob shows a progress bar as tqdm does, on standard error, with a line on standard output
// in between, and waits half-way.
const progressJob = `echo configured
for i in 10 20; do printf '\r%d%%|%040d|' $i 0 >&2; done
until test -e $COMB_CHECKPOINT_DIR/report; do sleep 0.05; done
echo reported
until test -e $COMB_CHECKPOINT_DIR/go; do sleep 0.05; done
printf '\r30%% \033[31mslow\033[0m         \r' >&2
printf '\r100%% done\n' >&2
`

// TestProgressBarsOfAGang: on a real terminal each task has one line that changes, which keeps the
// task's name, and lines that are complete stand above; in a file each state is a line.
func TestProgressBarsOfAGang(t *testing.T) {
	client, token := served(t, "2")
	ctx, cancel := context.WithTimeout(context.Background(), 2*testkit.Patience)
	defer cancel()
	comb := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "comb", append([]string{"job", "--server", client.URL(), "--token-file", token}, args...)...)
	}
	if out, err := comb("run", "--clean", "-d", "--tasks", "2", "--gpus", "1", "--cpus", "0.1", "--memory", "100", "--checkpoint",
		"--name", "bars", "--", "sh", "-c", progressJob).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var j rest.Job
	testkit.Wait(t, "the job has a folder for checkpoints", func() bool {
		var err error
		if j, err = client.Job(ctx, "bars"); err != nil {
			t.Fatal(err)
		}
		return j.CheckpointDir != ""
	})

	keeper, side := openTerminal(t, 40, 10)
	var mu sync.Mutex
	g := &glass{width: 40}
	go g.read(keeper, &mu)
	shown := func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := g.shows()
		slices.Sort(out)
		return out
	}
	until := func(want ...string) {
		t.Helper()
		testkit.WaitFor(t, func() string {
			return fmt.Sprintf("the terminal shows\n%s\nit shows\n%s", strings.Join(want, "\n"), strings.Join(shown(), "\n"))
		}, func() bool { return slices.Equal(shown(), want) })
	}
	var file bytes.Buffer
	onTerminal, inFile := comb("logs", "-f", "bars"), comb("logs", "-f", "bars")
	onTerminal.Stdout, onTerminal.Stderr, inFile.Stdout, inFile.Stderr = side, side, &file, &file
	for _, c := range []*exec.Cmd{onTerminal, inFile} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	bar := func(task, percent string) string { // cut at the terminal's edge
		return (fmt.Sprintf("main-%s | %s%%|%s", task, percent, strings.Repeat("0", 40)))[:39]
	}
	until(bar("0", "20"), "main-0 | configured", bar("1", "20"), "main-1 | configured")
	touch(t, filepath.Join(j.CheckpointDir, "report"))
	until(bar("0", "20"), "main-0 | configured", "main-0 | reported", bar("1", "20"), "main-1 | configured", "main-1 | reported")
	mu.Lock()
	if last := g.shows(); !strings.Contains(last[len(last)-1], "20%") || !strings.Contains(last[len(last)-2], "20%") {
		t.Errorf("the bars do not stand last: %q", last)
	}
	mu.Unlock()
	touch(t, filepath.Join(j.CheckpointDir, "go"))
	if err := onTerminal.Wait(); err != nil {
		t.Error(err)
	}
	until("main-0 | 100% done", "main-0 | configured", "main-0 | reported", "main-1 | 100% done", "main-1 | configured", "main-1 | reported")
	if g.fault != "" {
		t.Error(g.fault)
	}

	if err := inFile.Wait(); err != nil {
		t.Error(err)
	}
	zeros := strings.Repeat("0", 40)
	for _, task := range []string{"0", "1"} {
		var have []string
		for line := range strings.Lines(file.String()) {
			if rest, ok := strings.CutPrefix(line, "main-"+task+" | "); ok {
				have = append(have, strings.TrimRight(rest, " \n"))
			}
		}
		slices.Sort(have)
		want := []string{"10%|" + zeros + "|", "100% done", "20%|" + zeros + "|", "30% \x1b[31mslow\x1b[0m", "configured", "reported"}
		if !slices.Equal(have, want) {
			t.Errorf("in a file task %s has %q, want %q", task, have, want)
		}
	}
	if n := strings.Count(file.String(), "main-"); n != 12 || strings.Contains(file.String(), "\r") {
		t.Errorf("the file has %d lines: %q", n, file.String())
	}
	if done, err := client.Job(ctx, rest.JobRef(j.ID)); err != nil || !done.Phase.Ended() {
		t.Errorf("%+v, %v", done, err)
	}
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
