package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// Request is the digest of a request. It tells a repeated request from another one with the same
// idempotency key.
type Request [sha256.Size]byte

// MarshalText gives the digest in hex.
func (r Request) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, r[:]), nil }

// UnmarshalText reads a digest in hex.
func (r *Request) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(r)) {
		return fmt.Errorf("a digest of a request has %d hex digits, not %d", hex.EncodedLen(len(r)), len(text))
	}
	_, err := hex.Decode(r[:], text)
	return err
}

// Answered records the answer to an accepted command that came with an idempotency key. The same
// request gets the same answer again, whatever happened since.
type Answered struct {
	Meta    model.Meta   `json:"-"`
	At      model.Time   `json:"at"`
	Request Request      `json:"request"`
	Answer  model.Answer `json:"answer"`
	// Seq is the last event of the batch.
	Seq uint64 `json:"seq"`
	// Note is what the command's Input had as its Note.
	Note []byte `json:"note,omitempty"`
}

// reply is the recorded answer as a Reply.
func (a *Answered) reply() Reply {
	r := Reply{Answer: a.Answer, Seq: a.Seq, Note: a.Note}
	r.Answer.Repeated = true
	return r
}

// ReplyTo returns the answer for a repeated request; a refusal if the key came with another
// request.
func (a *Answered) ReplyTo(of Request) Reply {
	if a.Request != of {
		return Reply{Refusal: &model.Refusal{Kind: model.Conflict, Message: fmt.Sprintf(
			"idempotency key %q was used for another request: choose a new one", a.Meta.Key)}}
	}
	return a.reply()
}

// AnswerJournal is a Journal that remembers the Answered of its batches. Without it, a key only has
// an effect within its round.
type AnswerJournal interface {
	// Recall returns the answer to the first command with that subject and key; nil if none is
	// remembered. Any goroutine may call it.
	Recall(ctx context.Context, m model.Meta) (*Answered, error)
}

// requestOf is the digest of an input: the input's own Request, or else computed from its
// command.
func requestOf(in *Input) (Request, error) {
	if in.Request != (Request{}) {
		return in.Request, nil
	}
	text, err := json.Marshal(in.Command)
	if err != nil {
		return Request{}, fmt.Errorf("cannot tell the command from others: %w", err)
	}
	// The digest outlives program versions, as long as the answer: so it must not depend on the
	// package of a command.
	kind := fmt.Sprintf("%T", in.Command)
	return sha256.Sum256(fmt.Append(text, "sched", kind[strings.LastIndexByte(kind, '.'):])), nil
}

// recall looks for an earlier answer to a command with a key, in this round and in the journal;
// false if the command is new.
func (e *Engine) recall(t *pendingRound, in *Input) (Reply, bool) {
	m := model.MetaOf(in.Command)
	if m.Key == "" {
		return Reply{}, false
	}
	request, err := requestOf(in)
	if err != nil {
		return Reply{Err: err}, true
	}
	first := t.answered(m)
	if journal, ok := e.o.Journal.(AnswerJournal); ok && first == nil {
		// If an answer cannot be looked up, the command is not executed: it may have been before.
		if first, err = journal.Recall(context.Background(), m); err != nil {
			return Reply{Err: fmt.Errorf("cannot look up idempotency key %q: %w", m.Key, err)}, true
		}
	}
	if first == nil {
		return Reply{}, false
	}
	return first.ReplyTo(request), true
}

// answered returns the answer of this round to a key; nil if there is none.
func (t *pendingRound) answered(m model.Meta) *Answered {
	i, ok := t.keys[m]
	if !ok {
		return nil
	}
	return &t.batch.Answers[i]
}

// remember adds the answer to an accepted command to the batch.
func (t *pendingRound) remember(now model.Time, in *Input, a model.Answer) error {
	m := model.MetaOf(in.Command)
	if m.Key == "" {
		return nil
	}
	request, err := requestOf(in)
	if err != nil {
		return err
	}
	if t.keys == nil {
		t.keys = map[model.Meta]int{}
	}
	t.keys[m] = len(t.batch.Answers)
	t.batch.Answers = append(t.batch.Answers, Answered{Meta: m, At: now, Request: request, Answer: a, Note: in.Note})
	return nil
}

// complete adds to the answers what is known only at the end of a round: its last event, the
// effects of configurations, and policies that failed as soon as a configuration brought them.
func (t *pendingRound) complete(core *core.State, in []Input) {
	var failed []string
	for _, r := range t.batch.Records {
		if p, ok := r.Event.(model.PolicyFailed); ok {
			failed = append(failed, p.Words())
		}
	}
	for i := range in {
		a := &t.replies[i].Answer
		if _, ok := in[i].Command.(model.Reconfigure); ok && !a.Repeated && t.replies[i].Refusal == nil {
			core.Report(a, t.batch.Records)
			a.Effects = append(a.Effects[:len(a.Effects):len(a.Effects)], failed...)
			if first := t.answered(model.MetaOf(in[i].Command)); first != nil {
				first.Answer = *a
			}
		}
	}
	for i := range t.batch.Answers {
		t.batch.Answers[i].Seq = t.batch.Last()
	}
}
