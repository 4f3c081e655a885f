package jobspec

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/job-file.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocumentedExamplesAreAccepted(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	if len(blocks) < 3 {
		t.Fatalf("found %d examples", len(blocks))
	}
	for _, b := range blocks {
		result, problems := Parse("job-file.md", []byte(b[1]), testEnv())
		if problems != nil {
			t.Errorf("refused:\n%v\n%s", problems, b[1])
			continue
		}
		checkJob(t, result)
		checkSource(t, result)
	}
}

// known asks the reader itself which keys a map may have: an unknown one is
// answered by the list.
func known(t *testing.T, file, key string) []string {
	t.Helper()
	_, problems := Parse("", []byte(file), testEnv())
	for _, p := range problems {
		if _, names, ok := strings.Cut(p.Message, "known are "); ok && strings.HasSuffix(p.Key, key) {
			return strings.Split(names, ", ")
		}
	}
	t.Fatalf("the key %s is not refused with a list: %v", key, problems)
	return nil
}

func TestEveryKeyIsDocumented(t *testing.T) {
	text := page(t)
	documented := func(list []string) {
		for _, key := range list {
			if !regexp.MustCompile("`" + regexp.QuoteMeta(key) + "`").MatchString(text) {
				t.Errorf("docs/job-file.md does not describe the key %s", key)
			}
		}
	}
	const odd = "qqqqqqqqqqqqqqqq"
	role := func(more string) string { return "taskRoles: {main: {" + more + "}}" }
	for _, file := range []string{
		odd + ": 1", role(odd + ": 1"), role("completion: {" + odd + ": 1}"),
		role("resourcePerInstance: {" + odd + ": 1}"), role("extraContainerOptions: {" + odd + ": 1}"),
		"deployments: [{" + odd + ": 1}]", "defaults: {" + odd + ": 1}",
		role("") + "\ndeployments: [{taskRoles: {main: {" + odd + ": 1}}}]",
		role("") + "\nextras: {comb: {taskRoles: {main: {" + odd + ": 1}}}}",
		role("") + "\nextras: {comb: {taskRoles: {main: {elastic: {" + odd + ": 1}}}}}",
		"extras: {comb: {deadlines: [{" + odd + ": 1}]}}", "extras: {comb: {suspend: {" + odd + ": 1}}}",
	} {
		documented(known(t, file, odd))
	}

	// The table of extras.comb has exactly its keys.
	comb := known(t, "extras: {comb: {"+odd+": 1}}", odd)
	_, section, _ := strings.Cut(text, "\n## extras.comb\n")
	table, _, _ := strings.Cut(section, "\n| key of a role")
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	slices.Sort(rows)
	if !slices.Equal(rows, comb) {
		t.Errorf("the table of extras.comb has %v, the reader knows %v", rows, comb)
	}
}
