package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

const (
	magic = "combtrn1"
	// helloTime is how long a stranger may take to say who he is.
	helloTime = 2 * time.Second
	// maxGreeting bounds how many strangers are listened to at once.
	maxGreeting = 64
	waitTick    = time.Second
	dialPause   = 100 * time.Millisecond
	filePause   = 50 * time.Millisecond // between looks for the file of -until
)

// helloSize is magic, the job's hash, the rank and the number of tasks.
const helloSize = len(magic) + sha256.Size + 4 + 4

// messageSize is step, stop and the sums.
const messageSize = 8 + 1 + 8*(modelSize+1)

// message is what tasks exchange in each step: sums over a part of the batch, or
// over all of it in the answer of task 0.
type message struct {
	step uint64
	stop bool
	sums []float64
}

func (m *message) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, messageSize), m.step)
	if m.stop {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	for _, x := range m.sums {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

func decode(b []byte) message {
	m := message{step: binary.BigEndian.Uint64(b), stop: b[8] != 0, sums: make([]float64, modelSize+1)}
	for i := range m.sums {
		m.sums[i] = math.Float64frombits(binary.BigEndian.Uint64(b[9+8*i:]))
	}
	return m
}

// peers are the connections of one task: task 0 has one to every other task,
// indexed by rank; the others have one to task 0, at index 0.
type peers struct {
	world *world
	conns []net.Conn
}

func (p *peers) close() {
	for _, c := range p.conns {
		if c != nil {
			c.Close()
		}
	}
}

// reduce replaces m's sums by the sums over all tasks, added in order of rank so
// that the result does not depend on who was faster. Any task's stop stops all.
func (p *peers) reduce(m *message) error {
	if len(p.world.tasks) == 1 {
		return nil
	}
	if p.world.rank != 0 {
		return p.ask(m)
	}
	for rank := 1; rank < len(p.conns); rank++ {
		got, err := receive(p.conns[rank])
		if err != nil {
			return fmt.Errorf("lost %v in step %d: %w", p.world.tasks[rank], m.step, err)
		}
		if got.step != m.step {
			return fmt.Errorf("%v is in step %d, this task in step %d", p.world.tasks[rank], got.step, m.step)
		}
		m.stop = m.stop || got.stop
		for i, x := range got.sums {
			m.sums[i] += x
		}
	}
	b := m.encode()
	for rank := 1; rank < len(p.conns); rank++ {
		if _, err := p.conns[rank].Write(b); err != nil {
			return fmt.Errorf("lost %v in step %d: %w", p.world.tasks[rank], m.step, err)
		}
	}
	return nil
}

func (p *peers) ask(m *message) error {
	if _, err := p.conns[0].Write(m.encode()); err != nil {
		return fmt.Errorf("lost %v in step %d: %w", p.world.tasks[0], m.step, err)
	}
	got, err := receive(p.conns[0])
	if err != nil {
		return fmt.Errorf("lost %v in step %d: %w", p.world.tasks[0], m.step, err)
	}
	if got.step != m.step {
		return fmt.Errorf("%v is in step %d, this task in step %d", p.world.tasks[0], got.step, m.step)
	}
	*m = got
	return nil
}

func receive(c net.Conn) (message, error) {
	b := make([]byte, messageSize)
	if _, err := io.ReadFull(c, b); err != nil {
		return message{}, err
	}
	return decode(b), nil
}

// connect waits until the whole gang is there. Task 0 then gives its step and
// its weights to all, so that every task starts from the same checkpoint.
func connect(ctx context.Context, w *world, t *trainer, out io.Writer) (*peers, error) {
	p := &peers{world: w}
	if len(w.tasks) == 1 {
		return p, nil
	}
	if t.connectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.connectTimeout, errTimeout)
		defer cancel()
	}
	err := error(nil)
	if w.rank == 0 {
		err = p.gather(ctx, t, out)
	} else {
		err = p.join(ctx, t, out)
	}
	if err != nil {
		p.close()
		if ctx.Err() != nil {
			err = whyStopped(ctx)
		}
		return nil, err
	}
	return p, nil
}

func whyStopped(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return errTimeout
	}
	return errStopped
}

// guest is a task that introduced itself.
type guest struct {
	rank int
	conn net.Conn
}

// gather is task 0's side: accept until every rank is there.
func (p *peers) gather(ctx context.Context, t *trainer, out io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.world.addr)
	if err != nil {
		return fmt.Errorf("cannot listen for the gang: %w", err)
	}
	defer l.Close()
	p.conns = make([]net.Conn, len(p.world.tasks))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	guests := make(chan guest)
	go p.greetAll(ctx, l, guests)
	tick := time.NewTicker(waitTick)
	defer tick.Stop()
	for missing := len(p.conns) - 1; missing > 0; {
		select {
		case <-ctx.Done():
			return whyStopped(ctx)
		case <-tick.C:
			p.sayMissing(out)
		case g := <-guests:
			if old := p.conns[g.rank]; old != nil {
				old.Close() // a task that was started again: its old self is dead
			} else {
				missing--
			}
			p.conns[g.rank] = g.conn
		}
	}
	welcome := binary.BigEndian.AppendUint64([]byte(magic), t.step)
	welcome = append(welcome, t.model.bytes()...)
	for rank := 1; rank < len(p.conns); rank++ {
		if _, err := p.conns[rank].Write(welcome); err != nil {
			return fmt.Errorf("lost %v before the first step: %w", p.world.tasks[rank], err)
		}
	}
	return nil
}

func (p *peers) sayMissing(out io.Writer) {
	for rank := 1; rank < len(p.conns); rank++ {
		if p.conns[rank] == nil {
			fmt.Fprintf(out, "waiting for %v ...\n", p.world.tasks[rank])
		}
	}
}

// greetAll hears out everyone who connects. Whoever is not of this gang is
// dropped; he cannot keep others waiting.
func (p *peers) greetAll(ctx context.Context, l net.Listener, guests chan<- guest) {
	slots := make(chan struct{}, maxGreeting)
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(dialPause) // out of descriptors, say: it may pass
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			c.Close()
			continue
		}
		go func() {
			defer func() { <-slots }()
			rank, ok := p.greet(c)
			if !ok {
				c.Close()
				return
			}
			select {
			case guests <- guest{rank, c}:
			case <-ctx.Done():
				c.Close()
			}
		}()
	}
}

func (p *peers) greet(c net.Conn) (rank int, ok bool) {
	c.SetReadDeadline(time.Now().Add(helloTime))
	b := make([]byte, helloSize)
	if _, err := io.ReadFull(c, b); err != nil {
		return 0, false
	}
	r := binary.BigEndian.Uint32(b[helloSize-8:])
	if string(b) != string(p.hello(r)) || r == 0 || int(r) >= len(p.world.tasks) {
		return 0, false
	}
	return int(r), c.SetReadDeadline(time.Time{}) == nil
}

func (p *peers) hello(rank uint32) []byte {
	job := sha256.Sum256([]byte(p.world.job))
	b := append([]byte(magic), job[:]...)
	b = binary.BigEndian.AppendUint32(b, rank)
	return binary.BigEndian.AppendUint32(b, uint32(len(p.world.tasks)))
}

// join is the side of all other tasks: dial until task 0 takes this one in.
func (p *peers) join(ctx context.Context, t *trainer, out io.Writer) error {
	tick := time.NewTicker(waitTick)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if p.tryJoin(ctx, t) {
				break
			}
			time.Sleep(dialPause)
		}
		done <- ctx.Err()
	}()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			fmt.Fprintf(out, "waiting for %v ...\n", p.world.tasks[0])
		}
	}
}

// tryJoin dials once. Task 0 answers only when the gang is complete; a listener
// that is not task 0, or that goes away, is simply tried again.
func (p *peers) tryJoin(ctx context.Context, t *trainer) bool {
	c, err := (&net.Dialer{Timeout: helloTime}).DialContext(ctx, "tcp", p.world.addr)
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	b := make([]byte, len(magic)+8+8*modelSize)
	_, err = c.Write(p.hello(uint32(p.world.rank)))
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	if !stop() || err != nil || string(b[:len(magic)]) != magic {
		c.Close()
		return false
	}
	t.step = binary.BigEndian.Uint64(b[len(magic):])
	t.model.setBytes(b[len(magic)+8:])
	p.conns = []net.Conn{c}
	return true
}
