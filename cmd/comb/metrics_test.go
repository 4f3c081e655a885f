package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/test/testkit"
)

// fetch writes what the server answers to GET PATH into a file, its status first: fetch FILE PATH
// [TOKENFILE [PATTERN...]]. With patterns it asks until there is a line for each. The path may be a
// whole URL, of another listener of the server.
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	if !testkit.Within(testkit.Patience, func() bool { return fetchOnce(ts, args) }) {
		ts.Fatalf("%s never matches all of %q; at last:\n%s", args[1], args[3:], ts.ReadFile(args[0]))
	}
}

func fetchOnce(ts *testscript.TestScript, args []string) (all bool) {
	var e contexts.Endpoint
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("state/comb/server.json")), &e))
	url := e.URL + args[1]
	if strings.HasPrefix(args[1], "http://") {
		url = args[1]
	}
	r, err := http.NewRequest(http.MethodGet, url, nil)
	ts.Check(err)
	if len(args) > 2 {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[2])))
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // a certificate that signed itself
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), append(fmt.Appendf(nil, "%d\n", answer.StatusCode), body...), 0o600))
	return !slices.ContainsFunc(args[min(3, len(args)):], func(want string) bool {
		return !regexp.MustCompile("(?m)" + want).Match(body)
	})
}

// rules wants every metric that the alert rules use to be in a file with what a server told: rules
// FILE.
func rules(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile("../../deploy/prometheus/comb.rules.yml")
	ts.Check(err)
	told := ts.ReadFile(args[0])
	found := 0
	for _, line := range strings.Split(string(text), "\n") {
		expr, is := strings.CutPrefix(strings.TrimSpace(line), "expr:")
		if !is {
			continue
		}
		for _, name := range regexp.MustCompile(`\bcomb_[a-z_]+`).FindAllString(expr, -1) {
			found++
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(told) {
				ts.Fatalf("the rules use %s, which the server does not tell", name)
			}
		}
	}
	if found < 10 {
		ts.Fatalf("the rules use %d metrics", found)
	}
}
