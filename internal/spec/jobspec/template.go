package jobspec

import (
	"fmt"
	"strings"

	"github.com/combsched/comb/internal/base/document"
)

// A template is text with tags <% $root.path %>. The roots are $parameters, $secrets, $data,
// $script and $output. In a path [n] is the same as .n. A tag is replaced once: its value is
// never read as a template again.

// maxPath bounds the length of a reference.
const maxPath = 1024

// A segment is a piece of a template: plain text, or a reference when ref is set.
type segment struct {
	text string // as written, tag included
	ref  string // normalised, such as "$data.uri.0"; "" for text
}

// splitTemplate cuts a template into segments. "<%" that is not closed by "%>" before the
// next "<%" is plain text (a shell's printf '<%d>' must work). If "$" follows the "<%" it can
// only be a tag that was not closed, which is an error.
func splitTemplate(s string) ([]segment, error) {
	var out []segment
	start, end := 0, 0 // start of the present text; end of the nearest "%>" after it
	for open := strings.Index(s, "<%"); open >= 0; {
		next := indexFrom(s, "<%", open+2)
		if end >= 0 && end < open+2 {
			end = indexFrom(s, "%>", open+2)
		}
		if end < 0 || next >= 0 && next < end {
			if strings.HasPrefix(strings.TrimLeft(s[open+2:], " \t"), "$") {
				return nil, fmt.Errorf("%q is not closed by %%>", clip(s[open:]))
			}
			open = next
			continue
		}
		ref, err := parseReference(s[open+2 : end])
		if err != nil {
			return nil, err
		}
		if open > start {
			out = append(out, segment{text: s[start:open]})
		}
		out = append(out, segment{text: s[open : end+2], ref: ref})
		start, open = end+2, next
	}
	if start < len(s) {
		out = append(out, segment{text: s[start:]})
	}
	return out, nil
}

// indexFrom is strings.Index from an offset on; -1 is not found.
func indexFrom(s, what string, from int) int {
	if i := strings.Index(s[from:], what); i >= 0 {
		return from + i
	}
	return -1
}

// parseReference checks and normalises the inside of a tag.
func parseReference(inside string) (string, error) {
	ref := strings.Trim(inside, " \t")
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("<%%%s%%>: %s; write <%% $parameters.NAME %%>, with $parameters, $secrets, $data, $script or $output", clip(inside), why)
	}
	if !strings.HasPrefix(ref, "$") {
		return bad("it does not start with $")
	}
	if len(ref) > maxPath {
		return bad("it is too long")
	}
	ref = bracketsToDots(ref)
	root, path, found := strings.Cut(ref, ".")
	switch root {
	case "$parameters", "$secrets", "$data", "$script", "$output":
	default:
		return bad("there is no " + root)
	}
	if !found {
		return bad("it names no field of " + root)
	}
	for part := range strings.SplitSeq(path, ".") {
		if part == "" || strings.ContainsAny(part, " \t\r\n<>%{}[]\"'") {
			return bad("it is not a path of names")
		}
	}
	return ref, nil
}

// bracketsToDots turns every "[n]" into ".n". Other brackets stay, and are refused later.
func bracketsToDots(s string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '[')
		if open < 0 {
			break
		}
		length := strings.IndexByte(s[open:], ']')
		if length < 0 || !allDigits(s[open+1:open+length]) {
			break
		}
		b.WriteString(s[:open] + "." + s[open+1:open+length])
		s = s[open+length+1:]
	}
	return b.String() + s
}

func allDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// clip shortens a quotation in an error.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

const secretsRoot = "$secrets."

// RenderSecrets replaces the <% $secrets.x %> tags that Parse leaves in commands, which may
// be joined by line feeds. secrets are keyed as in Result.Secrets. It replaces once: a secret
// that looks like a tag stays as it is. So does all that is not a tag of a secret, since
// Parse has checked it. The error never holds a secret's value.
func RenderSecrets(command string, secrets map[string]string) (string, error) {
	var b strings.Builder
	rest := command
	for {
		text, tag, found := strings.Cut(rest, "<%")
		b.WriteString(text)
		if !found {
			return b.String(), nil
		}
		if !strings.HasPrefix(strings.TrimLeft(tag, " \t"), secretsRoot) {
			b.WriteString("<%")
			rest = tag
			continue
		}
		inside, after, closed := strings.Cut(tag, "%>")
		if !closed {
			return "", fmt.Errorf("%q is not closed by %%>", clip("<%"+tag))
		}
		ref, err := parseReference(inside)
		if err != nil {
			return "", err
		}
		key := strings.TrimPrefix(ref, secretsRoot)
		value, ok := secrets[key]
		if !ok {
			return "", fmt.Errorf("the job has no secret %q", clip(key))
		}
		if b.Len()+len(value) > 2*maxRendered {
			return "", errTooLarge
		}
		b.WriteString(value)
		rest = after
	}
}

// renderer fills templates. lookup returns the value of a reference. budget is how many bytes
// may still be written, so that a large value that is used often cannot fill the memory.
type renderer struct {
	lookup func(ref string) (string, error)
	budget *int
}

// errTooLarge says that the rendered commands exceed the limit.
var errTooLarge = fmt.Errorf("the commands, with all references filled in, exceed %d bytes", maxRendered)

// render fills in every tag but secrets, whose tags stay for the executor. It returns all
// that is wrong in the template.
func (r renderer) render(template string) (string, []error) {
	segments, err := splitTemplate(template)
	if err != nil {
		return "", []error{err}
	}
	var (
		b       strings.Builder
		errs    []error
		secrets []string
	)
	for _, s := range segments {
		text := s.text
		if s.ref != "" {
			value, err := r.lookup(s.ref)
			if err != nil {
				if errs = append(errs, err); len(errs) >= document.MaxProblems {
					return "", errs
				}
				continue
			}
			*r.budget -= len(value) // secrets count too, though they are filled in later
			if strings.HasPrefix(s.ref, secretsRoot) {
				secrets = append(secrets, s.ref)
			} else {
				text = value
			}
		}
		if *r.budget -= len(s.text); *r.budget < 0 {
			return "", append(errs, errTooLarge)
		}
		b.WriteString(text)
	}
	out := b.String()
	if len(errs) == 0 && !sameReferences(out, secrets) {
		errs = append(errs, fmt.Errorf("a value that is filled in contains a <%% %%> tag; tags are filled once only, so the value must hold none"))
	}
	return out, errs
}

// sameReferences reports whether a rendered text holds exactly these tags. A value must not
// add a tag.
func sameReferences(rendered string, want []string) bool {
	segments, err := splitTemplate(rendered)
	if err != nil {
		return false
	}
	n := 0
	for _, s := range segments {
		if s.ref == "" {
			continue
		}
		if n == len(want) || s.ref != want[n] {
			return false
		}
		n++
	}
	return n == len(want)
}
