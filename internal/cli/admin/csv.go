package admin

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/core/access"
)

// maxCSV bounds a file of users, in bytes.
const maxCSV = 1 << 20

// csvColumns are the columns that a file of users may have.
var csvColumns = []string{"name", "display", "email", "groups", "admin", "uid", "gid"}

// createMany creates the users of a file, all or none.
func (k *peopleCommands) createMany(c *cobra.Command, file string) error {
	src, err := k.ReadFile(file, maxCSV)
	if err != nil {
		return err
	}
	client, err := k.Client()
	if err != nil {
		return err
	}
	users, err := userNames(c.Context(), client)
	if err != nil {
		return err
	}
	groups, err := groupNames(c.Context(), client)
	if err != nil {
		return err
	}
	list, problems := readUsers(file, src, known{users, groups})
	if len(problems) > 0 {
		return problems
	}
	passwords := map[string]string{}
	for i := range list {
		list[i].Password = newPassword()
		passwords[list[i].Name] = list[i].Password
	}
	out, err := client.People().CreateUsers(c.Context(), list...)
	if err != nil {
		return err
	}
	return k.showMade(out.Users, passwords)
}

// known are the names that exist on the server.
type known struct{ users, groups []string }

// csvReader reads a file of users, and collects all mistakes.
type csvReader struct {
	file     string
	rows     *csv.Reader
	columns  []string
	known    known
	lines    map[string]int // line of each user's name, in lower case
	text     [][]byte       // the lines of the file
	problems document.Problems
}

// readUsers reads a file of users, whose first line names the columns. It reports up to
// document.MaxProblems mistakes, with line and column.
func readUsers(file string, src []byte, have known) ([]rest.NewUser, document.Problems) {
	r := &csvReader{file: file, known: have, lines: map[string]int{}}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if line, column, ok := badUTF8(src); !ok {
		r.problem(line, column, "", "this is not UTF-8 text: save the file as UTF-8")
		return nil, r.problems
	}
	r.text = bytes.Split(src, []byte("\n"))
	r.rows = csv.NewReader(bytes.NewReader(src))
	r.rows.FieldsPerRecord = -1 // short lines are reported in this program's words
	var out []rest.NewUser
	for {
		fields, err := r.rows.Read()
		var bad *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			if len(out) == 0 && len(r.problems) == 0 {
				r.problem(1, 1, "", "the file has no users: its first line names the columns ("+strings.Join(csvColumns, ", ")+"), each other one is a user")
			}
			return out, r.problems
		case errors.As(err, &bad): // it is unknown where the next line begins
			r.problem(bad.Line, bad.Column, "", `a " stands where none may: a cell with a comma or a quote in it is written as "...", a quote in it as ""`)
			return nil, r.problems
		case len(r.problems) >= document.MaxProblems:
			return nil, r.problems
		case r.columns == nil:
			r.header(fields)
			if len(r.problems) > 0 {
				return nil, r.problems // it is unknown to which column a cell belongs
			}
			continue
		}
		out = append(out, r.user(fields))
		if len(out) == rest.MaxNewUsers+1 {
			line, _ := r.rows.FieldPos(0)
			r.problem(line, 1, "", "a file may have "+strconv.Itoa(rest.MaxNewUsers)+" users: put the rest into another one")
			return nil, r.problems
		}
	}
}

// badUTF8 returns the place of the first byte that is not UTF-8.
func badUTF8(src []byte) (line, column int, ok bool) {
	if utf8.Valid(src) {
		return 0, 0, true
	}
	line, column = 1, 1
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		if r == utf8.RuneError && n == 1 {
			return line, column, false
		}
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
		src = src[n:]
	}
	return line, column, false
}

// problem adds a mistake. The reader counts columns in bytes, people in characters.
func (r *csvReader) problem(line, column int, key, message string) {
	if line >= 1 && line <= len(r.text) && column-1 <= len(r.text[line-1]) {
		column = utf8.RuneCount(r.text[line-1][:column-1]) + 1
	}
	r.problems = append(r.problems, document.Problem{File: r.file, Line: line, Column: column, Key: key,
		Message: message})
}

// header reads the names of the columns.
func (r *csvReader) header(fields []string) {
	for i, name := range fields {
		name = strings.ToLower(strings.TrimSpace(name))
		line, column := r.rows.FieldPos(i)
		switch {
		case !slices.Contains(csvColumns, name):
			r.problem(line, column, "", "there is no column "+document.Quote(name)+document.DidYouMean(name,
				csvColumns))
		case slices.Contains(r.columns, name):
			r.problem(line, column, "", "the column "+name+" is there twice")
		}
		r.columns = append(r.columns, name)
	}
	if !slices.Contains(r.columns, "name") && len(r.problems) == 0 {
		r.problem(1, 1, "", "the column name is missing: the first line names the columns")
	}
}

// user reads a line.
func (r *csvReader) user(fields []string) (out rest.NewUser) {
	line, _ := r.rows.FieldPos(0)
	if len(fields) != len(r.columns) {
		r.problem(line, 1, "", "there are "+strconv.Itoa(len(fields))+" cells, and the first line names "+strconv.Itoa(len(r.columns))+" columns")
		return out
	}
	for i, text := range fields {
		line, column := r.rows.FieldPos(i)
		say := func(message string) { r.problem(line, column, r.columns[i], message) }
		text = strings.TrimSpace(text)
		switch r.columns[i] {
		case "name":
			out.Name = text
			r.name(text, line, say)
		case "display":
			out.Display = text
			check(access.User{Name: "x", Display: text}, say)
		case "email":
			out.Email = text
			check(access.User{Name: "x", Email: text}, say)
		case "groups":
			out.Groups = r.groups(text, say)
		case "admin":
			yes, err := strconv.ParseBool(text)
			if err != nil && text != "" {
				say(document.Quote(text) + ": want true or false")
			}
			out.Administrator = yes
		case "uid":
			out.UID = readID(text, func(id int64) access.IDs { return access.IDs{UID: id} }, say)
		case "gid":
			out.GID = readID(text, func(id int64) access.IDs { return access.IDs{GID: id} }, say)
		}
	}
	return out
}

// check reports what is wrong with a user of which only one field is set.
func check(u access.User, say func(string)) {
	for _, text := range u.Check() {
		say(text)
	}
}

// readID reads a number; "" is 0.
func readID(text string, as func(int64) access.IDs, say func(string)) int64 {
	if text == "" {
		return 0
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		say(document.Quote(text) + ": want a number from " + strconv.Itoa(access.LowestID) + " on")
		return 0
	}
	check(access.User{Name: "x", IDs: as(id)}, say)
	return id
}

func (r *csvReader) name(text string, line int, say func(string)) {
	check(access.User{Name: text}, say)
	key := strings.ToLower(text)
	if before, twice := r.lines[key]; twice {
		say(document.Quote(text) + " is in line " + strconv.Itoa(before) + " already; capitals make no difference")
	}
	r.lines[key] = line
	if i := slices.IndexFunc(r.known.users, func(have string) bool { return strings.EqualFold(have, text) }); i >= 0 {
		say("there is a user " + r.known.users[i] + " already")
	}
}

func (r *csvReader) groups(text string, say func(string)) (out []string) {
	for name := range strings.SplitSeq(text, ";") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(r.known.groups, name) {
			say("there is no group " + document.Quote(name) + document.DidYouMean(name, r.known.groups))
		}
		out = append(out, name)
	}
	check(access.User{Name: "x", Groups: out}, say)
	return out
}
