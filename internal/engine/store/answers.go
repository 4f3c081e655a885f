package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/engine"
)

const (
	// KeepAnswers is how long an answer is kept for its idempotency key, at least.
	KeepAnswers = 24 * model.Hour
	// subjectKeys is how many keys of one subject are remembered; beyond it, submissions are
	// refused. allKeys of all subjects take some 50 MiB of memory.
	subjectKeys = 300_000
	allKeys     = 4 * subjectKeys
	// spareKeys are kept for stops and other commands that are no submissions.
	spareKeys = 20_000
	// forgetKeys is how many answers one batch forgets when they are old enough.
	forgetKeys = 1000
)

// answersTable holds answers in the order of their times. The row of a key is known in memory
// only: an index of keys, which are random, would write a page for each of them. Numbers have no
// gap: those from head.forgot+1 to head.answered exist.
const answersTable = `CREATE TABLE IF NOT EXISTS answers (
	id INTEGER PRIMARY KEY, mark BLOB NOT NULL, subject TEXT NOT NULL, at INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL);
`

// keyDigest is the form of a key in memory.
type keyDigest [16]byte

func digestKey(m model.Meta) keyDigest {
	sum := sha256.Sum256([]byte(string(m.Subject) + "\x00" + m.Key))
	return keyDigest(sum[:])
}

// answers is the index of answers in memory: only this process changes them.
type answers struct {
	mu     sync.Mutex
	rows   map[keyDigest]int64 // id in the table
	held   map[model.Subject]int
	last   int64      // id of the last row
	oldest model.Time // of the first row; 0 when there is none
	limit  int        // for one subject
}

// openAnswers reads the index.
func (s *Store) openAnswers(ctx context.Context, limit int) error {
	if limit == 0 {
		limit = subjectKeys
	}
	a := &s.answers
	a.rows, a.held, a.limit = map[keyDigest]int64{}, map[model.Subject]int{}, limit
	var err error
	s.writer.answer, err = s.writer.conn.PrepareContext(ctx,
		"INSERT INTO answers (id, mark, subject, at, sum, data) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return s.explain("cannot write answers", err)
	}
	return s.loadAnswers(ctx)
}

// loadAnswers reads the index.
func (s *Store) loadAnswers(ctx context.Context) error {
	a := &s.answers
	rows, err := s.read.QueryContext(ctx, "SELECT id, mark, subject, at FROM answers ORDER BY id")
	if err != nil {
		return s.explain("cannot read the answers", err)
	}
	defer rows.Close()
	var mark sql.RawBytes
	var subject string
	var at model.Time
	for rows.Next() {
		if err := rows.Scan(&a.last, &mark, &subject, &at); err != nil {
			return s.explain("cannot read the answers", err)
		}
		if len(mark) != len(keyDigest{}) {
			return s.damaged("an idempotency key is cut off")
		}
		a.rows[keyDigest(mark)] = a.last
		a.held[model.Subject(subject)]++
		if a.oldest == 0 {
			a.oldest = at
		}
	}
	if err := rows.Err(); err != nil {
		return s.explain("cannot read the answers", err)
	}
	// No number is used twice, not even that of a lost answer.
	err = s.read.QueryRowContext(ctx, "SELECT max(answered, ?) FROM head", a.last).Scan(&a.last)
	return s.explain("cannot read the answers", err)
}

// checksumAnswer covers the content of a row.
func checksumAnswer(m keyDigest, data []byte) uint32 {
	return crc32.Update(crc32.Checksum(m[:], castagnoli), castagnoli, data)
}

// answerRow is a row as it was read.
type answerRow struct {
	id         int64
	mark, data sql.RawBytes
	subject    model.Subject
	at         model.Time
	sum        uint32
}

// damage says that a row is not as it was written, and which job it is about where that can be
// read; "" if it is sound. The key itself is not stored.
func (r *answerRow) damage() string {
	var said engine.Answered
	err := json.Unmarshal(r.data, &said)
	if err == nil && len(r.mark) == len(keyDigest{}) && checksumAnswer(keyDigest(r.mark), r.data) == r.sum && said.At == r.at {
		return ""
	}
	about := ""
	if err == nil && said.Answer.Job != 0 {
		about = fmt.Sprintf(" about job %d", said.Answer.Job)
	}
	return fmt.Sprintf("answer %d to an idempotency key of %q%s is damaged: its checksum does not match", r.id, r.subject, about)
}

// forgottenAnswers are the answers that a batch is about to forget.
type forgottenAnswers struct {
	marks    []keyDigest
	subjects []model.Subject
	last     int64      // the number of the last of them
	oldest   model.Time // of those that stay
}

// saveAnswers writes the answers of a batch, and forgets some that are old enough. It updates
// their numbers in the head.
func (s *Store) saveAnswers(ctx context.Context, tx *sql.Conn, of []engine.Answered) (*forgottenAnswers, error) {
	if len(of) == 0 {
		return nil, nil
	}
	s.answers.mu.Lock()
	next, oldest := s.answers.last+1, s.answers.oldest
	s.answers.mu.Unlock()
	for i := range of {
		data, err := json.Marshal(&of[i])
		if err != nil {
			return nil, err
		}
		m := digestKey(of[i].Meta)
		_, err = s.writer.answer.ExecContext(ctx, next+int64(i), m[:], string(of[i].Meta.Subject), of[i].At, checksumAnswer(m, data), data)
		if err != nil {
			return nil, err
		}
	}
	f := &forgottenAnswers{}
	if before := of[0].At.Add(-KeepAnswers); oldest != 0 && oldest <= before {
		var err error
		if f, err = forget(ctx, tx, before); err != nil {
			return nil, err
		}
	}
	_, err := tx.ExecContext(ctx, "UPDATE head SET answered = ?, forgot = max(forgot, ?)", next+int64(len(of))-1,
		f.last)
	return f, err
}

// forget deletes the oldest answers, of before a time.
func forget(ctx context.Context, tx *sql.Conn, before model.Time) (*forgottenAnswers, error) {
	rows, err := tx.QueryContext(ctx, `DELETE FROM answers WHERE at < ? AND id IN (SELECT id FROM answers ORDER BY id LIMIT ?)
		RETURNING id, mark, subject`, before, forgetKeys)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	f := &forgottenAnswers{}
	for rows.Next() {
		var id int64
		var mark []byte
		var subject model.Subject
		if err := rows.Scan(&id, &mark, &subject); err != nil {
			return nil, err
		}
		f.last = max(f.last, id)
		if len(mark) != len(keyDigest{}) {
			continue // it had no key in memory
		}
		f.marks, f.subjects = append(f.marks, keyDigest(mark)), append(f.subjects, subject)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	err = tx.QueryRowContext(ctx, "SELECT at FROM answers ORDER BY id LIMIT 1").Scan(&f.oldest)
	return f, err
}

// keepAnswers updates the index after a batch became durable.
func (s *Store) keepAnswers(of []engine.Answered, gone *forgottenAnswers) {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range of {
		a.last++
		a.rows[digestKey(of[i].Meta)] = a.last
		a.held[of[i].Meta.Subject]++
		if a.oldest == 0 {
			a.oldest = of[i].At
		}
	}
	if gone == nil {
		return
	}
	if gone.last > 0 {
		a.oldest = gone.oldest
	}
	for i, m := range gone.marks {
		delete(a.rows, m)
		if a.held[gone.subjects[i]]--; a.held[gone.subjects[i]] <= 0 {
			delete(a.held, gone.subjects[i])
		}
	}
}

// Recall implements engine.AnswerJournal.
func (s *Store) Recall(ctx context.Context, m model.Meta) (*engine.Answered, error) {
	mark := digestKey(m)
	s.answers.mu.Lock()
	id, ok := s.answers.rows[mark]
	s.answers.mu.Unlock()
	if m.Key == "" || !ok {
		return nil, nil
	}
	var sum uint32
	var data []byte
	err := s.read.QueryRowContext(ctx, "SELECT sum, data FROM answers WHERE id = ?", id).Scan(&sum, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // it was forgotten at this moment
	}
	if err != nil {
		return nil, s.explain("cannot read what was answered", err)
	}
	out := &engine.Answered{Meta: m}
	if checksumAnswer(mark, data) != sum || json.Unmarshal(data, out) != nil {
		return nil, s.damaged(fmt.Sprintf("what was answered to idempotency key %q does not match its checksum", m.Key))
	}
	return out, nil
}

// KeysFull says why one more key of a subject is not remembered, nil when it is. Keys younger
// than KeepAnswers are never forgotten to make room. Commands other than submissions, such as
// stops, have some extra room.
func (s *Store) KeysFull(subject model.Subject, submission bool, now model.Time) error {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	limit, all := a.limit, max(allKeys, a.limit)
	if !submission {
		limit, all = limit+spareKeys, all+spareKeys
	}
	if a.oldest != 0 && a.oldest < now.Add(-KeepAnswers) {
		return nil // the next batch forgets more than it adds
	}
	if held := a.held[subject]; held >= limit {
		return fmt.Errorf("%d idempotency keys of %s are remembered, each for 24 hours, which is the limit", held, subject)
	}
	if len(a.rows) >= all {
		return fmt.Errorf("%d idempotency keys of all users are remembered, each for 24 hours, which is the limit", len(a.rows))
	}
	return nil
}
