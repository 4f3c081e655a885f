// Package rest is the REST contract of Comb: the types on the wire, the error body and a Go
// client. fromcore.go maps statuses of the core to these types; explanations and plans of the
// core are sent as they are. The package must not know how a server answers or how answers
// are shown.
package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ProblemType is the media type of every error body (RFC 9457).
const ProblemType = "application/problem+json"

// Code classifies a problem for programs; Detail is for people.
type Code string

// The codes of problems.
const (
	CodeInvalid         Code = "invalid"          // 400, 422: the request itself is wrong
	CodeUnauthorized    Code = "unauthorized"     // 401: no token, or a wrong one
	CodeForbidden       Code = "forbidden"        // 403: not for this host or subject
	CodeNotFound        Code = "not_found"        // 404
	CodeGone            Code = "gone"             // 410: it existed, and a rule removed it
	CodeMethod          Code = "method"           // 405
	CodeConflict        Code = "conflict"         // 409: contradicts the present state
	CodePrecondition    Code = "precondition"     // 412: If-Match names an older configuration
	CodePreconditionReq Code = "precondition_req" // 428: If-Match is missing
	CodeTooLarge        Code = "too_large"        // 413
	CodeMediaType       Code = "media_type"       // 415
	CodeNeverFits       Code = "never_fits"       // 422: no cell of this cluster is large enough
	CodeBusy            Code = "busy"             // 429: try again after Retry-After
	CodeInternal        Code = "internal"         // 500
	CodeUnavailable     Code = "unavailable"      // 503: stopping or starting
	CodeStorageFull     Code = "storage_full"     // 507: nothing was accepted
)

// FieldError is one mistake in a request. Line and Column count from 1 in the file that was
// sent; 0 is unknown.
type FieldError struct {
	Detail  string `json:"detail" doc:"What is wrong and what to do"`
	Pointer string `json:"pointer,omitempty" doc:"The key, as a path from the top of the document or request"`
	Line    int    `json:"line,omitempty" doc:"Line in the submitted file, from 1"`
	Column  int    `json:"column,omitempty" doc:"Column in the submitted file, from 1"`
}

// String is "line:column: pointer: detail" with the parts that are known.
func (f FieldError) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", f.Line, f.Column)
	}
	if f.Pointer != "" {
		b.WriteString(f.Pointer + ": ")
	}
	b.WriteString(f.Detail)
	return b.String()
}

// Problem is the body of every error answer (RFC 9457). As an error its text is the detail
// and all mistakes, one a line.
type Problem struct {
	Type   string       `json:"type,omitempty" doc:"about:blank: the code says it all"`
	Title  string       `json:"title" doc:"The HTTP status in words"`
	Status int          `json:"status" doc:"The HTTP status"`
	Detail string       `json:"detail" doc:"What is wrong, for people"`
	Code   Code         `json:"code" doc:"What is wrong, for programs"`
	Errors []FieldError `json:"errors,omitempty" doc:"Every mistake found"`
	// Warnings are about a cluster file that also has mistakes.
	Warnings []string `json:"warnings,omitempty" doc:"What is accepted in the file, but probably not meant"`
	// Seconds is the value of the header Retry-After.
	Seconds int `json:"-"`
}

// NewProblem makes a problem of a status, a code and a sentence.
func NewProblem(status int, code Code, detail string, errs ...FieldError) *Problem {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, Code: code, Errors: errs,
	}
}

// Error returns the detail and every mistake, one a line.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	for _, e := range p.Errors {
		b.WriteString("\n  " + e.String())
	}
	return b.String()
}

// GetStatus returns the HTTP status, so that the router can use it.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of the body, whatever the client accepts.
func (p *Problem) ContentType(string) string { return ProblemType }

// CodeOf returns the code of the problem in err, or "".
func CodeOf(err error) Code {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// CodeForStatus is the general code of a status.
func CodeForStatus(status int) Code {
	switch status {
	case http.StatusUnauthorized:
		return CodeUnauthorized
	case http.StatusForbidden:
		return CodeForbidden
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusGone:
		return CodeGone
	case http.StatusMethodNotAllowed:
		return CodeMethod
	case http.StatusConflict:
		return CodeConflict
	case http.StatusPreconditionFailed:
		return CodePrecondition
	case http.StatusPreconditionRequired:
		return CodePreconditionReq
	case http.StatusRequestEntityTooLarge:
		return CodeTooLarge
	case http.StatusUnsupportedMediaType:
		return CodeMediaType
	case http.StatusTooManyRequests:
		return CodeBusy
	case http.StatusServiceUnavailable:
		return CodeUnavailable
	case http.StatusInsufficientStorage:
		return CodeStorageFull
	}
	if status >= 500 {
		return CodeInternal
	}
	return CodeInvalid
}
