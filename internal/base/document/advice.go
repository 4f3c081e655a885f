package document

import (
	"strings"
	"unicode/utf8"
)

// unclosed replaces the library's words where only a closing bracket is missing.
const unclosed = "unclosed bracket"

// advice is a text for errors of the library that contain fault, where the mistake begins with
// one of the characters in starts, or with any when that is empty.
type advice struct{ fault, starts, text string }

const misplaced = "this does not belong to what is above; check the indentation and the quotes"

// advices are in order: the first that matches is used. {char} is the character at the mistake,
// {line} the rest of its line.
func advices() []advice {
	return []advice{
		{unclosed, "", "the closing {close} of this is missing"},
		{"mapping values are not allowed", "", `unexpected ": "; put the value in quotes, or the inner map on a line of its own with more indentation`},
		{"could not find expected ':'", "", `expected "key: value" here, found {line}; a colon and a space must follow the key`},
		{"did not find expected key", "-", "a list item where a key is expected; check the indentation"},
		{"did not find expected key", "", misplaced},
		{"did not find expected '-' indicator", "", misplaced},
		{"did not find expected <document start>", "", misplaced},
		{"block sequence entries are not allowed", "", `a list cannot begin on this line; put its first "- " on the next line`},
		{"mapping keys are not allowed", "", `complex keys ("? ") are not supported; write "key: value"`},
		{"cannot start any token", "\t", "a tab is used for indentation; use spaces"},
		{"tab character", "", "a tab is used for indentation; use spaces"},
		{"cannot start any token", "", "a value cannot begin with {char}; put it in quotes"},
		{endInQuotes, "", "the closing {char} of this text is missing"},
		{"unexpected document indicator", "", "the document ends inside a quoted text; the closing quote is missing"},
		{"did not find expected ',' or ']'", ":", `a "key: value" in a list needs braces: [{key: value}]`},
		{"did not find expected ',' or ']'", "", "expected a comma or ] here, found {line}; put text that holds brackets, commas or quotes in quotes"},
		{"did not find expected ',' or '}'", "", "expected a comma or } here, found {line}; put text that holds brackets, commas or quotes in quotes"},
		{"did not find expected node content", "", "unexpected {char}; put text that begins with it in quotes"},
		{"unknown escape character", "", `unknown escape in double quotes; write \\ for a backslash, or use single quotes`},
		{"hexdecimal number", "", `a bad escape in double quotes; \x needs 2 hexadecimal digits, \u 4 and \U 8`},
		{"Unicode character escape", "", "an escape in double quotes that is no character"},
		{"comment or line break", "", "unexpected text behind | or >; begin the text on the next line, or put a value that begins with it in quotes"},
		{"indentation indicator", "", "a bad number behind | or >; leave it out"},
		{"unknown anchor", "", "aliases (*name) are not supported; write the value out, or put text that begins with * in quotes"},
		{"alphabetic or numeric character", "", "anchors and aliases are not supported; put text that begins with & or * in quotes"},
		{"directive", "", "YAML directives are not supported; remove this line"},
		{"tag", "", "tags (!name) are not supported; remove it, or put text that begins with ! in quotes"},
	}
}

// advice says what is wrong with the text at an offset.
func (p *parser) advice(message string, at int) string {
	rest := p.src[at:]
	if strings.Contains(message, "max depth") {
		return p.tooDeep()
	}
	before := p.src[strings.LastIndexByte(p.src[:at], '\n')+1 : at]
	for _, a := range advices() {
		if !strings.Contains(message, a.fault) || a.starts != "" && (rest == "" || !strings.Contains(a.starts, rest[:1])) {
			continue
		}
		if a.text == misplaced && strings.Trim(before, " -") != "" {
			return "unexpected text behind a value; put the value in quotes, or this on its own line"
		}
		_, size := utf8.DecodeRuneInString(rest)
		closing := "]"
		if strings.HasPrefix(rest, "{") {
			closing = "}"
		}
		return strings.NewReplacer("{char}", rest[:size], "{close}", closing, "{line}", Quote(firstLine(rest))).Replace(a.text)
	}
	message = strings.TrimPrefix(message, "yaml: ")
	if _, words, found := strings.Cut(message, ": "); found && strings.HasPrefix(message, "line ") {
		message = words
	}
	return "this is not valid YAML (" + message + "); check the indentation and the quotes"
}

func firstLine(s string) string { return strings.TrimSpace(s[:lineEnd(s)]) }
