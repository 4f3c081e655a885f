package jobspec

import (
	"strings"
	"testing"

	"github.com/combsched/comb/internal/base/document"
)

func TestRenderSecrets(t *testing.T) {
	secrets := map[string]string{"token": "t0k", "git.key": "k", "list.0": "zero", "tag": "<% $secrets.token %>", "empty": ""}
	for _, c := range []struct{ in, want, problem string }{
		{in: "plain", want: "plain"},
		{in: "", want: ""},
		{in: "a <% $secrets.token %> b <%$secrets.git.key%>", want: "a t0k b k"},
		{in: "<% $secrets.list[0] %>", want: "zero"},
		{in: "<% $secrets.empty %>.", want: "."},
		{in: "once: <% $secrets.tag %>", want: "once: <% $secrets.token %>"},
		{in: "printf '<%d>' 1", want: "printf '<%d>' 1"},
		{in: "<% $secrets.no %>", problem: `the job has no secret "no"`},
		{in: "<% $parameters.x %>", want: "<% $parameters.x %>"},
		{in: "printf '<%d'\nuse <% $secrets.token %> %>", want: "printf '<%d'\nuse t0k %>"},
		{in: "<%\n$secrets.token %>", want: "<%\n$secrets.token %>"},
		{in: "<% $secrets. %>", problem: "<% $secrets. %>: it is not a path of names; write <% $parameters.NAME %>, with $parameters, $secrets, $data, $script or $output"},
		{in: "<% $secrets.token", problem: `"<% $secrets.token" is not closed by %>`},
	} {
		got, err := RenderSecrets(c.in, secrets)
		switch {
		case c.problem != "" && (err == nil || err.Error() != c.problem):
			t.Errorf("%q: error %v, want %q", c.in, err, c.problem)
		case c.problem == "" && (err != nil || got != c.want):
			t.Errorf("%q: got %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// A large parameter that is used often must not fill the memory.
func TestExpansionIsBounded(t *testing.T) {
	big := strings.Repeat("x", 60_000)
	src := "protocolVersion: 2\nname: bomb\ntype: job\nparameters: {big: " + big + "}\ntaskRoles:\n  main:\n    resourcePerInstance: {}\n    commands:\n" +
		strings.Repeat("    - "+strings.Repeat("<% $parameters.big %>", 100)+"\n", 200)
	_, problems := Parse("bomb.yaml", []byte(src), testEnv())
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "exceed 1048576 bytes") {
		t.Fatalf("problems: %v", problems)
	}
	ok := strings.Replace(src, strings.Repeat("<% $parameters.big %>", 100), "short", -1)
	if _, problems := Parse("ok.yaml", []byte(ok), testEnv()); problems != nil {
		t.Errorf("a long list of short commands is refused: %v", problems)
	}
}

func TestDurations(t *testing.T) {
	for in, want := range map[string]int64{
		"90": 90e6, "1.5": 1.5e6, "90s": 90e6, "2h30m": 9000e6, "1d": 86400e6, "1d12h": 129600e6, "0": 0, "250ms": 250e3, "0.5h": 1800e6,
		"1h0.5us": 3600e6 + 1, "-5s": -5e6, "99999999h": 359999996400e6, "99999999999d": 1 << 62, strings.Repeat("9", 39): 1 << 62,
	} {
		if got, ok := document.ParseDuration(in); !ok || got != want {
			t.Errorf("%q: %d %v, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "soon", "1e3", "0x10", "Inf", "NaN", "1_000", "d", "1d-2h", "-1d", "1.5d", "1h1d", "1h2", "1..5h", "-", "h", "1 h"} {
		if got, ok := document.ParseDuration(in); ok {
			t.Errorf("%q: accepted as %d", in, got)
		}
	}
}

func TestSplitTemplate(t *testing.T) {
	for in, refs := range map[string]string{
		"printf '<%d>' 1":                                     "",
		"printf '<%d>'; use <% $secrets.a %>":                 "$secrets.a",
		"<%<%<% $parameters.a %> <%":                          "$parameters.a",
		"<%$data.uri[0]%><%$data.uri.1%>":                     "$data.uri.0 $data.uri.1",
		"a %> b":                                              "",
		"<% $parameters.a-b_c %>%> <%":                        "$parameters.a-b_c",
		"<% $parameters.x[1][2].y %>":                         "$parameters.x.1.2.y",
		"<%\t$output.name\t%>":                                "$output.name",
		"<% $parameters.a\n%>":                                "!",
		"<% $parameters.a <% $parameters.b %>":                "!",
		"<% %>":                                               "!",
		"<% $parameters." + strings.Repeat("a", 2000) + " %>": "!",
		"<% $parameters.x[1 %>":                               "!",
		"<% $parameters.x[a] %>":                              "!",
		"<% $this.uri %>":                                     "!",
	} {
		segments, err := splitTemplate(in)
		got, whole := "", ""
		for _, s := range segments {
			whole += s.text
			if s.ref != "" {
				got = strings.TrimSpace(got + " " + s.ref)
			}
		}
		if err != nil {
			got, whole = "!", in
		}
		if got != refs || whole != in {
			t.Errorf("%q: references %q, want %q; all of it %q (%v)", clip(in), got, refs, clip(whole), err)
		}
	}
}
