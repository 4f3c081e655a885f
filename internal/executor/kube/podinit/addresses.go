package podinit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

// addressesWithin is how long a task waits for a server that does not answer. After it the task
// uses the names of the cluster's DNS.
const addressesWithin = 30 * time.Second

// awaitAddresses waits until each task of the gang has an address, and puts the addresses into the
// environment. So no task depends on the cluster's DNS, which learns new names late. It returns
// false where the task was stopped meanwhile.
func awaitAddresses(ctx context.Context, server *link.Client, stops <-chan os.Signal) bool {
	silent := time.Now()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		known, err := server.Gang(ctx)
		switch {
		case err == nil:
			putAddresses(known)
			return true
		case link.Answered(err) && !errors.Is(err, link.ErrNoTask) && !errors.Is(err, link.ErrToken):
			silent = time.Now() // the server is there, but some task of the gang has no address yet
		case time.Since(silent) > addressesWithin || errors.Is(err, link.ErrNoTask):
			fmt.Fprintln(os.Stderr, "comb: the addresses of the gang do not come, its tasks go by their names:", err)
			return true
		}
		select {
		case <-stops:
			return false
		case <-time.After(pause):
		}
	}
}

// putAddresses replaces host names by addresses in all environment variables.
func putAddresses(known map[string]string) {
	var pairs []string
	for name, at := range known {
		pairs = append(pairs, name, at)
	}
	replace := strings.NewReplacer(pairs...)
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if is := replace.Replace(value); is != value {
			os.Setenv(name, is)
		}
	}
}
