package jobspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ofAnImage = `protocolVersion: 2
name: boxed
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: "URI"
taskRoles:
  main:
    dockerImage: image
    resourcePerInstance: {gpu: 1}
`

// What can be no image's name is refused when it is submitted, where it stands, whatever becomes of
// images.
func TestImageNames(t *testing.T) {
	env := testEnv()
	for uri, want := range map[string]string{
		"python:3.12": "", "registry.example.com:5000/team/a_b/train": "",
		"127.0.0.1:5000/x@sha256:" + strings.Repeat("a", 64): "",
		"sha256:" + strings.Repeat("0", 64):                  "", "openpai/standard:python_3.6-pytorch_1.2.0-gpu": "",
		"Python:3.12":                   "it has capital letters in front of its tag; write one such as python:3.12",
		"a/" + strings.Repeat("b", 300): "it is too long; write one such as python:3.12",
		"<% $parameters.image %>":       "<% %> tags are filled in in commands only; write one such as python:3.12",
		"python 3.12":                   "write one such as python:3.12 or registry.example.com/team/train:3",
		" python":                       "write one such as python:3.12 or registry.example.com/team/train:3",
		"python:":                       "write one such as python:3.12 or registry.example.com/team/train:3",
		"https://example.com/x":         "write one such as python:3.12 or registry.example.com/team/train:3",
		"x@sha256:abc":                  "write one such as python:3.12 or registry.example.com/team/train:3",
		"-v":                            "write one such as python:3.12 or registry.example.com/team/train:3",
	} {
		for _, env.Images = range []ImageUse{ImagesIgnored, ImagesUsed, ImagesWrapped} {
			_, problems := Parse("f", []byte(strings.Replace(ofAnImage, "URI", uri, 1)+"    commands: [x]\n"), env)
			if want == "" && problems == nil {
				continue
			}
			if len(problems) != 1 || problems[0].Line != 7 || problems[0].Column != 10 ||
				problems[0].Key != "prerequisites[0].uri" ||
				want == "" || !strings.HasSuffix(problems[0].Message, " is not the name of an image: "+want) {
				t.Errorf("%s: %v, want %q", uri, problems, want)
			}
		}
	}
	env.Images = ImagesUsed
	_, problems := Quick(QuickJob{Name: "q", Image: "A B", Command: []string{"x"}}, env)
	if len(problems) != 1 || !strings.Contains(problems[0].String(), `"A B" is not the name of an image: `) {
		t.Errorf("of a command line: %v", problems)
	}
}

// A role without commands runs what its image says, where that is known; else it is refused when it
// is submitted.
func TestOwnProgramOfImages(t *testing.T) {
	env := testEnv()
	src := strings.Replace(ofAnImage, "URI", "box:1", 1)
	for _, env.Images = range []ImageUse{ImagesUsed, ImagesNeeded} {
		for _, text := range []string{src, src + "    commands:\n"} {
			r, problems := Parse("f", []byte(text), env)
			if problems != nil || len(r.Job.Roles[0].Launch.Command) != 0 || r.Job.Roles[0].Launch.Image != "box:1" {
				t.Errorf("use %d: %+v, %v", env.Images, r, problems)
			}
		}
		r, problems := Quick(QuickJob{Name: "q", Image: "box:1", GPUs: 1}, env)
		if problems != nil || len(r.Job.Roles[0].Launch.Command) != 0 {
			t.Errorf("a command line without a command: %+v, %v", r, problems)
		}
	}
	around := `
deployments: [{name: d, taskRoles: {main: {preCommands: [x]}}}]
defaults: {deployment: d}
`
	for _, c := range []struct {
		use       ImageUse
		src, want string
	}{
		{ImagesIgnored, src,
			"f:10:5: taskRoles.main: the role has no commands, and tasks run as plain processes of the " +
				"machine here, for which no image says what they run: write its commands"},
		{ImagesWrapped, src,
			"f:10:5: taskRoles.main: the role has no commands, and what an image runs by itself is not " +
				"known where Comb's own program starts the tasks of pods (--pod-image): write its commands"},
		{ImagesUsed, strings.Replace(src, "    dockerImage: image\n", "", 1),
			`f:10:5: taskRoles.main: a task role needs the key "commands"`},
		{ImagesUsed, src + "    commands: []\n", "f:12:15: taskRoles.main.commands: at least one command is needed"},
		{ImagesUsed, src + "    commands: ['']\n",
			"f:12:15: taskRoles.main.commands: every command is empty; at least " +
				"one is needed"},
		{ImagesUsed, src + around,
			"f:10:5: taskRoles.main: the role has no commands, so that its image's own program " +
				"runs, which no other commands can stand around: " +
				"write its commands, or leave out those of its prerequisites and of its deployment"},
	} {
		env.Images = c.use
		_, problems := Parse("f", []byte(c.src), env)
		if diff := cmp.Diff(c.want, problems.Error()); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", c.src, diff)
		}
	}
	env.Images = ImagesIgnored
	_, problems := Quick(QuickJob{Name: "q", Image: "box:1", GPUs: 1}, env)
	if len(problems) == 0 || !strings.Contains(problems.Error(), `the image "box:1" cannot be used`) {
		t.Errorf("a command line where images are ignored: %v", problems)
	}
}

func TestPull(t *testing.T) {
	env := testEnv()
	env.Images = ImagesUsed
	src := strings.Replace(ofAnImage, "URI", "box:1", 1)
	for more, want := range map[string]string{
		"": "", "extras: {comb: {pull: missing}}": "missing", "extras: {comb: {pull: always}}": "always",
	} {
		if r, problems := Parse("f", []byte(src+more), env); problems != nil || r.Job.Roles[0].Launch.Pull != want {
			t.Errorf("%s: %+v, %v", more, r, problems)
		}
	}
	r, problems := Quick(QuickJob{Name: "q", Image: "box:1", Pull: "always", GPUs: 1}, env)
	if problems != nil || r.Job.Roles[0].Launch.Pull != "always" {
		t.Errorf("a command line: %+v, %v", r, problems)
	}
	_, problems = Quick(QuickJob{Name: "q", Image: "box:1", Pull: "often", GPUs: 1}, env)
	if len(problems) != 1 || problems[0].String() != `extras.comb.pull: "often" is not one of missing, always` {
		t.Errorf("another word: %v", problems)
	}
}
