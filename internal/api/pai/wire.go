package pai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// messageBody is the body of each error, and of each answer without data.
type messageBody struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, messageBody{code, message})
}

func done(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, messageBody{Message: fmt.Sprintf(format, args...)})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func setRetry(w http.ResponseWriter, seconds int) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
}

// read decodes a request's JSON and ignores unknown fields. On an error it answers the
// request.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	src, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", "the body cannot be read")
		return false
	}
	if at, detail := rest.CheckJSON(src); detail != "" {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", fmt.Sprintf("at byte %d of the body: %s", at+1, detail))
		return false
	}
	if err := json.Unmarshal(src, v); err != nil {
		refuse(w, http.StatusBadRequest, "InvalidParametersError", "the body: "+wrongJSON(err))
		return false
	}
	return true
}

// wrongJSON says what is wrong with a body, without names of Go types.
func wrongJSON(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return "want an object, have " + kind.Value
	case errors.As(err, &kind):
		return kind.Field + " cannot be " + kind.Value
	case errors.As(err, &syntax) && strings.Contains(syntax.Error(), "unexpected end"):
		return "the JSON ends too early"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// millis is a time in milliseconds since 1970; nil is none.
func millis(t model.Time) *int64 {
	if t == 0 {
		return nil
	}
	ms := int64(t) / 1000
	return &ms
}

// list is encoded as [] when it is empty.
func list[T any](all []T) []T { return append([]T{}, all...) }

// clip shortens a text of a stranger for a message.
func clip(text string) string {
	if len(text) > 64 {
		return text[:64] + "..."
	}
	return text
}
