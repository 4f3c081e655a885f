package jobspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sourceHead = "protocolVersion: 2\nname: masked\ntype: job\n"
const sourceTail = "taskRoles:\n  main:\n    resourcePerInstance: {}\n    commands: ['<% $secrets.a %>'] # kept\n"

// Every value here holds HUSH, which must be nowhere in the job.
func TestSecretsAreMaskedHoweverTheyAreWritten(t *testing.T) {
	for name, src := range map[string]string{
		"block":            sourceHead + "secrets:\n  a: HUSH\n" + sourceTail,
		"last":             sourceHead + sourceTail + "secrets:\n  a: HUSH",
		"first":            "secrets: {a: HUSH}\n" + sourceHead + sourceTail,
		"own indentation":  sourceHead + sourceTail + "secrets:\n        a: HUSH\n\n\n",
		"comments":         sourceHead + "secrets: # HUSH\n# HUSH\n  a: HUSH # HUSH\n  # HUSH\n" + sourceTail,
		"literal":          sourceHead + "secrets:\n  a: |\n    HUSH\n\n    HUSH: 2\n  b: >-\n    HUSH\n" + sourceTail,
		"quoted lines":     sourceHead + "secrets:\n  a: \"HUSH\n    HUSH\"\n  b: 'HUSH\n\n    HUSH'\n" + sourceTail,
		"plain lines":      sourceHead + "secrets:\n  a: HUSH\n    HUSH\n" + sourceTail,
		"flow":             sourceHead + "secrets: {a: HUSH, b: [HUSH, {c: HUSH}]}\n" + sourceTail,
		"flow lines":       sourceHead + "secrets: {\n  a: HUSH,\n  b: [\n HUSH\n ]\n  }\n" + sourceTail,
		"lists":            sourceHead + "secrets:\n  a: HUSH\n  b:\n  - HUSH\n  - - HUSH\n" + sourceTail,
		"quoted key":       sourceHead + "\"secrets\":\n  a: HUSH\n" + sourceTail,
		"carriage returns": strings.ReplaceAll(sourceHead+"secrets:\n  a: HUSH\n"+sourceTail, "\n", "\r\n"),
		"byte order mark":  "\ufeff" + sourceHead + "secrets:\n  a: HUSH\n" + sourceTail,
		"markers":          "---\n" + sourceHead + "secrets:\n  a: HUSH\n" + sourceTail + "...\n",
		"one line":         "{protocolVersion: 2, name: masked, secrets: {a: HUSH}, type: job, taskRoles: {main: {resourcePerInstance: {}, commands: ['<% $secrets.a %>']}}}",
		"flow document":    "{protocolVersion: 2,\nname: masked,\nsecrets: {\na: HUSH},\ntype: job, taskRoles: {main: {resourcePerInstance: {}, commands: ['<% $secrets.a %>']}}}",
		"in two places":    sourceHead + "parameters:\n  secrets:\n    a: shown\nsecrets:\n  a: HUSH\n" + sourceTail,
	} {
		t.Run(name, func(t *testing.T) {
			result, problems := Parse("", []byte(src), testEnv())
			if problems != nil {
				t.Fatal(problems)
			}
			if !strings.Contains(result.Secrets["a"], "HUSH") {
				t.Errorf("secrets: %q", result.Secrets)
			}
			if strings.Contains(result.Job.Source, "HUSH") {
				t.Errorf("the source shows a secret:\n%s", result.Job.Source)
			}
			checkSource(t, result)
			checkJob(t, result)
		})
	}
}

func TestMaskingKeepsTheRestOfTheFile(t *testing.T) {
	src := "# mine\n" + sourceHead + "secrets:\n  a: x # old: y\n  b-c: {d: [1, 2]}\n\n" + sourceTail
	want := "# mine\n" + sourceHead + "secrets:\n  a: \"******\"\n  \"b-c\":\n    d:\n      - \"******\"\n      - \"******\"\n" + sourceTail
	result, problems := Parse("", []byte(src), testEnv())
	if problems != nil {
		t.Fatal(problems)
	}
	if diff := cmp.Diff(want, result.Job.Source); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}
