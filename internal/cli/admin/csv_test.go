package admin

import (
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// TestCSV reads a file as spreadsheets write it.
func TestCSV(t *testing.T) {
	src := "\ufeffEmail, name,groups,admin,display\r\n" +
		"alice@example.com,alice,vision; nlp,TRUE,\"Alice, of \"\"Vision\"\"\"\r\n" +
		",bob,,,\r\n"
	got, problems := readUsers("f.csv", []byte(src), known{groups: []string{"vision", "nlp"}})
	want := []rest.NewUser{{Name: "alice", Email: "alice@example.com", Groups: []string{"vision", "nlp"}, Administrator: true, Display: `Alice, of "Vision"`}, {Name: "bob"}}
	if len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, problems)
	}
}

// TestCSVMistakes: all are told at once, with line and column.
func TestCSVMistakes(t *testing.T) {
	have := known{users: []string{"Carol"}, groups: []string{"vision", "everyone"}}
	for _, c := range []struct{ src, want string }{
		{"", `f.csv:1:1: the file has no users: its first line names the columns (name, display, email, groups, admin, uid, gid), each other one is a user`},
		{"name,mail,colour,name\n", `f.csv:1:6: there is no column "mail"; did you mean email?
f.csv:1:11: there is no column "colour"; known are admin, display, email, gid, groups, name, uid
f.csv:1:18: the column name is there twice`},
		{"email\nx@y\n", `f.csv:1:1: the column name is missing: the first line names the columns`},
		{"name,email,groups,admin\n-a,é@,visoin;vision,yes\nbob,b@c\ncarol,é@c,vision,x\nBob,b,,\nbob,,,\n", `f.csv:2:1: name: "-a" cannot be a user: a name has 1 to 64 letters, digits, ".", "_" and "-", a letter or digit first and last
f.csv:2:4: email: "é@" is no e-mail address: want NAME@HOST
f.csv:2:7: groups: there is no group "visoin"; did you mean vision?
f.csv:2:21: admin: "yes": want true or false
f.csv:3:1: there are 2 cells, and the first line names 4 columns
f.csv:4:1: name: there is a user Carol already
f.csv:4:18: admin: "x": want true or false
f.csv:5:5: email: "b" is no e-mail address: want NAME@HOST
f.csv:6:1: name: "bob" is in line 5 already; capitals make no difference`},
		{"name\nb\"ob\n", `f.csv:2:2: a " stands where none may: a cell with a comma or a quote in it is written as "...", a quote in it as ""`},
		{"name\nal\xffice\n", `f.csv:2:3: this is not UTF-8 text: save the file as UTF-8`},
	} {
		_, problems := readUsers("f.csv", []byte(c.src), have)
		if got := problems.Error(); got != c.want {
			t.Errorf("%q:\n%s\nwant\n%s", c.src, got, c.want)
		}
	}
	var many strings.Builder
	many.WriteString("name\n")
	for range rest.MaxNewUsers + 1 {
		many.WriteString("u\n")
	}
	if _, problems := readUsers("f.csv", []byte(many.String()), have); len(problems) != 100 {
		t.Errorf("%d problems", len(problems))
	}
}

// FuzzCSV: no file makes the reader stop, and one without problems has users with names.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("name,groups\nalice,vision\n"))
	f.Add([]byte("\"name\nx\",\n\"\n"))
	f.Add([]byte("name\n\"a\nb\"x"))
	f.Fuzz(func(t *testing.T, src []byte) {
		list, problems := readUsers("f", src, known{})
		if len(list) == 0 && len(problems) == 0 {
			t.Error("no users, and no problem")
		}
		for _, u := range list {
			if u.Name == "" && len(problems) == 0 {
				t.Error("a user without a name")
			}
		}
	})
}
