package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

// doWait lets time pass: wait 5m.
func (s *Session) doWait(c command) (string, error) {
	d, err := parseDuration(c.args.word(0))
	if err != nil {
		return "", fmt.Errorf("wait: %w", err)
	}
	if err := c.args.done(1); err != nil {
		return "", err
	}
	s.world.Extend(s.world.Now().Add(d))
	return "", nil
}

// doAt lets time pass until so long after the script's begin: at 1h30m.
func (s *Session) doAt(c command) (string, error) {
	d, err := parseDuration(c.args.word(0))
	if err != nil {
		return "", fmt.Errorf("at: %w", err)
	}
	to := epochStart.Add(d)
	if to < s.world.Now() {
		return "", fmt.Errorf("at: it is already %s", s.clock(s.world.Now()))
	}
	if err := c.args.done(1); err != nil {
		return "", err
	}
	s.world.Extend(to)
	return "", nil
}

// doSet sets how tasks behave that set nothing themselves: set start=0s stop=1s.
func (s *Session) doSet(c command) (string, error) {
	s.defaults.StartDelay = c.args.duration("start", s.defaults.StartDelay)
	s.defaults.StopDelay = c.args.duration("stop", s.defaults.StopDelay)
	return "", c.args.done(0)
}

// doExit makes running tasks end by themselves: exit NAME [task=worker[0]] [code=0].
func (s *Session) doExit(c command) (string, error) {
	code := c.args.number("code", 0)
	return s.each(c, "runs", func(id model.JobID, task int32) bool { return s.world.Exit(id, task, code) })
}

// doLose makes tasks unknown, though they live: lose NAME [task=...] [reason=...].
func (s *Session) doLose(c command) (string, error) {
	reason := c.args.text("reason", "nothing is heard of it")
	return s.each(c, "runs and is heard of", func(id model.JobID, task int32) bool { return s.world.Lose(id, task, reason) })
}

// doFound ends the effect of lose: found NAME [task=...].
func (s *Session) doFound(c command) (string, error) {
	return s.each(c, "is lost", s.world.Find)
}

// each calls f for the tasks that a command names. what is the state that they must be in.
func (s *Session) each(c command, what string, f func(model.JobID, int32) bool) (string, error) {
	id, j, err := s.job(c.args.word(0))
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.args.name, err)
	}
	ts := tasks(c.args, j)
	if err := c.args.done(1); err != nil {
		return "", err
	}
	done := 0
	for _, t := range ts {
		if f(id, t) {
			done++
		}
	}
	if done == 0 {
		return fmt.Sprintf("no such task of %s %s\n", j.Name, what), nil
	}
	return "", nil
}

// doProgress reports on a task: progress NAME [task=...] [step=N] [total=N] [loss=TEXT]
// [checkpoint].
func (s *Session) doProgress(c command) (string, error) {
	checkpoint := c.args.flag("checkpoint")
	step, total := c.args.number("step", 0), c.args.number("total", 0)
	loss := c.args.text("loss", "")
	var use *model.DeviceUse
	if util, memory := c.args.number("util", 0), c.args.number("memory", 0); util != 0 || memory != 0 {
		use = &model.DeviceUse{Util: util * 10, MemoryMB: int64(memory)}
	}
	return s.each(c, "runs", func(id model.JobID, task int32) bool {
		return s.world.Progress(id, task, model.Progress{Step: int64(step), Total: int64(total), Loss: loss, Checkpoint: checkpoint, Use: use})
	})
}

// doRefuse makes the next starts on a node fail:
// refuse NODE [times=1] [reason=...] [job], or refuse NODE off.
func (s *Session) doRefuse(c command) (string, error) {
	own, off := c.args.flag("job"), c.args.flag("off")
	times := c.args.number("times", 1)
	reason := c.args.text("reason", "the runtime failed")
	node, err := s.nodeName(c.args.word(0))
	if err != nil {
		return "", err
	}
	if off {
		times = 0
	}
	s.world.Refuse(node, reason, int(times), own)
	return "", c.args.done(1)
}

// nodeName checks that a node is or was configured.
func (s *Session) nodeName(name string) (cell.NodeName, error) {
	found := false
	err := s.read(func(st *core.State) {
		for _, n := range st.Nodes() {
			found = found || string(n.Name) == name
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no node %q", name)
	}
	return cell.NodeName(name), err
}

// doNode changes a node: node NAME down|up|reboot|cordon|uncordon|dead [reason=...], node NAME
// drain [within=10m].
func (s *Session) doNode(c command) (string, error) {
	reason := c.args.text("reason", "")
	name, err := s.nodeName(c.args.word(0))
	if err != nil {
		return "", err
	}
	what := c.args.word(1)
	cordon := model.Cordon{Meta: s.meta(c.args), Node: name, On: what == "cordon" || what == "drain", Reason: reason}
	if what == "drain" {
		cordon.Drain = s.world.Now().Add(c.args.duration("within", 0))
	}
	if err := c.args.done(2); err != nil {
		return "", err
	}
	switch what {
	case "down":
		s.world.Down(name, reason)
	case "up":
		s.world.Up(name)
	case "reboot":
		s.world.Reboot(name)
	case "cordon", "uncordon", "drain", "dead":
		in := model.Command(cordon)
		if what == "dead" {
			in = model.DeclareDead{Meta: cordon.Meta, Node: name, Reason: reason}
		}
		r, err := s.give(engine.Input{Command: in})
		if err != nil {
			return "", err
		}
		if r.Refusal != nil {
			return s.refused(r.Refusal), nil
		}
		if what == "dead" {
			s.world.Dead(name)
		}
	default:
		return "", fmt.Errorf("node: %q is none of down, up, reboot, cordon, uncordon, drain, dead", what)
	}
	return "", nil
}

// doLeaf changes one device: leaf n1:0 bad|held|cordoned|good [sku=gpu] [reason=...].
func (s *Session) doLeaf(c command) (string, error) {
	name, device, _ := strings.Cut(c.args.word(0), ":")
	device, part, inParts := strings.Cut(device, ":")
	if !inParts {
		part = "0"
	}
	index, err := strconv.ParseInt(device, 10, 32)
	slice, wrong := strconv.ParseInt(part, 10, 32)
	if err != nil || wrong != nil {
		return "", fmt.Errorf("leaf: %q is not NODE:DEVICE, such as n1:0, or NODE:DEVICE:PART", c.args.word(0))
	}
	node, err := s.nodeName(name)
	if err != nil {
		return "", err
	}
	h := model.LeafHealth{Node: node, Device: int32(index), Part: int32(slice), SKU: cell.TypeName(c.args.text("sku", "")),
		Good: c.args.word(1) == "good", HeldByOthers: c.args.word(1) == "held", Cordoned: c.args.word(1) == "cordoned",
		Reason: c.args.text("reason", "")}
	if h.SKU == "" {
		h.SKU, err = s.onlySKU(node)
	}
	if err != nil {
		return "", err
	}
	if w := c.args.word(1); !slices.Contains([]string{"good", "bad", "held", "cordoned"}, w) {
		return "", fmt.Errorf("leaf: %q is none of good, bad, held, cordoned", w)
	}
	s.world.Leaf(h)
	return "", c.args.done(2)
}

// onlySKU finds the SKU of a node that has only one.
func (s *Session) onlySKU(node cell.NodeName) (cell.TypeName, error) {
	var sku cell.TypeName
	var several error
	err := s.read(func(st *core.State) {
		for _, n := range st.Nodes() {
			if n.Name != node {
				continue
			}
			for _, k := range n.SKUs {
				if sku != "" && sku != k.SKU {
					several = fmt.Errorf("leaf: %s has several SKUs; say sku=%s", node, k.SKU)
				}
				sku = k.SKU
			}
		}
	})
	if err == nil {
		err = several
	}
	return sku, err
}

// doHeal makes every node reachable, every device good and every lost task found.
func (s *Session) doHeal(c command) (string, error) {
	s.world.Heal()
	return "", c.args.done(0)
}

// doRestart throws the engine's state away and recovers it from the journal.
func (s *Session) doRestart(c command) (string, error) {
	if err := c.args.done(0); err != nil {
		return "", err
	}
	before := s.digest()
	if err := s.reopen(false); err != nil {
		return "", err
	}
	after := s.digest()
	if before != after {
		return "", fmt.Errorf("restart: the recovered state has digest %s, the one before had %s", after, before)
	}
	return "recovered\n", s.runUntilIdle()
}

// doCrash arms a crash: the next append to the journal, or with append=N the Nth from now,
// fails as if the process died before or after it. With every=N so does each Nth after that,
// for ever. Commands without an answer are given again.
func (s *Session) doCrash(c command) (string, error) {
	when := c.args.word(0)
	if when != "before" && when != "after" {
		return "", fmt.Errorf("crash: say whether before or after the next append")
	}
	n := c.args.number("append", 1)
	if n < 1 {
		return "", fmt.Errorf("crash: append=%d: the next append is number 1", n)
	}
	every := c.args.number("every", 0)
	if every != 0 && every < 2 {
		return "", fmt.Errorf("crash: every=%d: at least every second append must go well, or nothing would ever be done", every)
	}
	s.journal.when, s.journal.in, s.journal.every = when, n-1, every
	text := fmt.Sprintf("armed: the process dies %s its next append", when)
	if n > 1 {
		text = fmt.Sprintf("armed: the process dies %s its append number %d from now", when, n)
	}
	if every > 0 {
		text += fmt.Sprintf(", and each number %d behind it", every)
	}
	return text + "\n", c.args.done(1)
}

// doDisk makes the next appends to the journal fail: disk fail [times=1]. The engine keeps
// facts and tries again. Commands are given again.
func (s *Session) doDisk(c command) (string, error) {
	times := c.args.number("times", 1)
	if c.args.word(0) != "fail" || times < 1 || times > maxDiskFailures {
		return "", fmt.Errorf("disk: the form is: disk fail times=1, with times from 1 to %d", maxDiskFailures)
	}
	s.journal.failures = times
	return fmt.Sprintf("armed: the next appends fail, %d of them\n", times), c.args.done(1)
}

// digest is the state's digest as of the last record.
func (s *Session) digest() string {
	var d string
	if err := s.read(func(st *core.State) { d = st.Digest() }); err != nil {
		return err.Error()
	}
	return d
}
