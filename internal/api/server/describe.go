package server

import (
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/combsched/comb/internal/api/rest"
)

// refusals describe the statuses with which requests can end before their handler runs.
var refusals = map[int]string{
	http.StatusUnauthorized:                "No token, or one that is not valid",
	http.StatusForbidden:                   "Another host name, or a page of another web site",
	http.StatusRequestTimeout:              "The body came too slowly",
	http.StatusRequestEntityTooLarge:       "The body is too large",
	http.StatusExpectationFailed:           "The header Expect asks for something else than 100-continue",
	http.StatusTooManyRequests:             "A limit is reached; Retry-After says when to try again",
	http.StatusRequestHeaderFieldsTooLarge: "The first line and the headers are too large",
	http.StatusNotImplemented:              "The header Transfer-Encoding says something else than chunked",
	http.StatusHTTPVersionNotSupported:     "Neither HTTP/1.1 nor HTTP/1.0",
}

// operation fills in what all routes share. more are further statuses of this route.
func operation(api huma.API, o huma.Operation, more ...int) huma.Operation {
	o.Path = rest.Prefix + o.Path
	o.MaxBodyBytes = -1 // the guard has read the body and checked its size
	o.BodyReadTimeout = readTimeout
	if o.Responses == nil {
		o.Responses = map[string]*huma.Response{}
	}
	more = append(more, http.StatusForbidden, http.StatusExpectationFailed, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusNotImplemented, http.StatusHTTPVersionNotSupported)
	if o.Security == nil { // it needs a token
		more = append(more, http.StatusUnauthorized)
	}
	if o.Method != http.MethodGet {
		more = append(more, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests)
	}
	if _, dear := costlyRoutes[o.Method+" "+o.Path]; dear {
		more = append(more, http.StatusTooManyRequests)
	}
	for _, status := range more {
		o.Responses[strconv.Itoa(status)] = refusal(api, strconv.Itoa(status), refusals[status])
	}
	o.Responses["default"] = refusal(api, "Problem", "What else went wrong")
	return o
}

// refusal is a problem, described once for all operations.
func refusal(api huma.API, name, meaning string) *huma.Response {
	all := api.OpenAPI().Components
	if all.Responses[name] == nil {
		all.Responses[name] = &huma.Response{Description: meaning, Content: map[string]*huma.MediaType{rest.ProblemType: {
			Schema: all.Schemas.Schema(reflect.TypeFor[rest.Problem](), true, "Problem"),
		}}}
	}
	return &huma.Response{Ref: "#/components/responses/" + name}
}
