package lab

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/cell"
	"github.com/combsched/comb/internal/core/model"
)

const (
	benchAsks     = 300
	benchExplains = 300
	readStreams   = 1000 // event streams that are read,
	userStreams   = 500  // of users with so many each, as many as one may have
)

// asks measures what people ask while very many jobs wait: the first page of a list with three
// filters, why a job waits, and what streams cost that are read.
func (b *bench) asks(ctx context.Context) error {
	before, err := b.resident()
	if err != nil {
		return err
	}
	var lists []time.Duration
	query := rest.JobQuery{States: []model.Phase{model.Waiting}, VCs: []cell.VCName{"default", "vc1"}, Users: []model.Subject{"admin"}, Limit: 50}
	for range benchAsks {
		began := time.Now()
		if _, err := b.client.Jobs(ctx, query); err != nil {
			return err
		}
		lists = append(lists, time.Since(began))
	}
	b.Quantiles("comb_first_page", lists, "jobs", strconv.FormatInt(b.sent.Load(), 10), "filters", "3")
	after, err := b.resident()
	if err != nil {
		return err
	}
	b.Print("comb_first_pages_memory", after-before, "MiB", "pages", strconv.Itoa(benchAsks))
	if err := b.explains(ctx); err != nil {
		return err
	}
	return b.streams(ctx)
}

// explains asks why jobs wait that came at different times.
func (b *bench) explains(ctx context.Context) error {
	var all []time.Duration
	for i := range benchExplains {
		began := time.Now()
		if _, err := b.client.Explain(ctx, fmt.Sprintf("flood-%d", int64(i)*b.sent.Load()/benchExplains+1)); err != nil {
			return err
		}
		all = append(all, time.Since(began))
	}
	b.Quantiles("comb_explain", all, "waiting", strconv.FormatInt(b.sent.Load(), 10))
	return nil
}

// readers makes users, and returns a token of each: administrators, since they are told of every
// job.
func (b *bench) readers(ctx context.Context) (tokens []string, err error) {
	for i := range readStreams / userStreams {
		name := fmt.Sprintf("reader-%d", i)
		if _, err := b.client.People().CreateUsers(ctx, rest.NewUser{Name: name, Administrator: true}); err != nil {
			return nil, err
		}
		made, err := b.client.People().CreateToken(ctx, rest.NewToken{Name: "streams"}, name)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, made.Secret)
	}
	return tokens, nil
}

// streams opens many that are read, has some events told to all of them, and measures what they add
// to the server's memory.
func (b *bench) streams(ctx context.Context) error {
	tokens, err := b.readers(ctx)
	if err != nil {
		return err
	}
	info, err := b.client.Info(ctx)
	if err != nil {
		return err
	}
	before, err := b.resident()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0}}
	told := make(chan time.Time, readStreams)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for i := range readStreams {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s%s/events?follow=true&after=%d", b.lab.server.URL, rest.Prefix, info.Seq), nil)
		if err != nil {
			return err
		}
		q.Header.Set("Authorization", "Bearer "+tokens[i/userStreams])
		r, err := client.Do(q)
		if err != nil {
			return err
		}
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("a stream is refused: %s", r.Status)
		}
		group.Go(func() {
			defer r.Body.Close()
			in := bufio.NewReader(r.Body)
			for {
				line, err := in.ReadString('\n')
				if strings.HasPrefix(line, "data:") {
					told <- time.Now()
					_, _ = io.Copy(io.Discard, in)
					return
				}
				if err != nil {
					return
				}
			}
		})
	}
	began := time.Now()
	if _, err := b.client.Submit(ctx, rest.SubmitRequest{Source: fmt.Sprintf(benchJobLines, "told-to-all", "true")}, ""); err != nil {
		return err
	}
	var took []time.Duration
	for range readStreams {
		select {
		case at := <-told:
			took = append(took, at.Sub(began))
		case <-time.After(time.Minute):
			return fmt.Errorf("%d of %d streams were told of a job within a minute", len(took), readStreams)
		}
	}
	after, err := b.resident()
	if err != nil {
		return err
	}
	b.Quantiles("comb_event_to_stream", took, "streams", strconv.Itoa(readStreams))
	b.Print("comb_read_streams_memory", after-before, "MiB", "streams", strconv.Itoa(readStreams))
	return nil
}
