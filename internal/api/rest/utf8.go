package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// encode makes the body of a request. JSON cannot carry bytes that are not UTF-8, and the
// encoder would replace them. They are refused instead, each with its place.
func encode(v any) ([]byte, error) {
	if bad := badText(nil, "", reflect.ValueOf(v)); len(bad) > 0 {
		return nil, NewProblem(http.StatusUnprocessableEntity, CodeInvalid, "there is text that is not UTF-8", bad...)
	}
	return json.Marshal(v)
}

// badText appends the strings of a value that are not UTF-8, with their places by the names
// in JSON: quick.command[2].
func badText(list []FieldError, at string, v reflect.Value) []FieldError {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			list = badText(list, at, v.Elem())
		}
	case reflect.String:
		if i := firstBad(v.String()); i >= 0 {
			list = append(list, FieldError{Pointer: at, Detail: notUTF8(v.String(), i)})
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() != reflect.Uint8 { // bytes are encoded as base64
				list = badText(list, fmt.Sprintf("%s[%d]", at, i), v.Index(i))
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			list = badText(list, at, k)
			list = badText(list, join(at, strings.ToValidUTF8(k.String(), "?")), v.MapIndex(k))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			list = badText(list, join(at, name), v.Field(i))
		}
	}
	return list
}

func join(at, name string) string { return strings.TrimPrefix(at+"."+name, ".") }

// firstBad is the index at which a text stops being UTF-8; -1 is nowhere.
func firstBad(s string) int {
	for i, r := range s {
		if r != utf8.RuneError {
			continue
		}
		if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
			return i
		}
	}
	return -1
}

func notUTF8(s string, i int) string {
	return fmt.Sprintf("byte %d, 0x%02x, is not UTF-8 text; give it in UTF-8", i+1, s[i])
}

// CheckJSON refuses a JSON text that the decoder would change: bytes that are not UTF-8, and
// halves of surrogate pairs. offset is the place, from 0. detail is "" for a good text.
func CheckJSON(src []byte) (offset int, detail string) {
	s := string(src)
	if i := firstBad(s); i >= 0 {
		return i, notUTF8(s, i)
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		first := surrogate(s[i:])
		switch {
		case first == 0:
			i++ // skip the escaped character, which may be a backslash
		case first < 0xdc00 && surrogate(s[i+6:]) >= 0xdc00:
			i += 11
		default:
			return i, fmt.Sprintf("%s is half a character: two such escapes make one, of \\ud800 to \\udbff and of \\udc00 to \\udfff", s[i:i+6])
		}
	}
	return 0, ""
}

// surrogate reads an escaped half of a character at the start of a text; 0 is none.
func surrogate(s string) (unit int) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0
	}
	if n, err := fmt.Sscanf(s[2:6], "%04x", &unit); n != 1 || err != nil || unit < 0xd800 || unit > 0xdfff {
		return 0
	}
	return unit
}
