package jobspec

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/distribution/reference"

	"github.com/combsched/comb/internal/base/document"
)

// Login is the user and the password for the registry of an image.
type Login struct {
	User     string `json:"user"`
	Password string `json:"password"`
	Secret   string `json:"secret,omitempty"` // path of the secret that is the password; "" where the file has the password itself
}

// loginKey, followed by an image, is the key of its login among a job's secrets. The path of
// a secret of a job file has no zero byte.
const loginKey = "\x00login "

// LoginOf returns the login of an image, from the job's secrets; nil without one.
func LoginOf(secrets map[string]string, image string) (*Login, error) {
	text, ok := secrets[loginKey+image]
	if !ok {
		return nil, nil
	}
	var l Login
	if json.Unmarshal([]byte(text), &l) != nil {
		return nil, errors.New("the credentials of the image are damaged")
	}
	return &l, nil
}

// logins are the logins of a file's images, by loginKey and image.
type logins map[string]string

// keep keeps the login of a prerequisite, if it is for the registry of its image.
func (ls logins) keep(r *document.Reader, at *document.Node, pre *prerequisite, l Login, registry string) {
	if l.User == "" && l.Password == "" || pre.kind != "dockerimage" {
		return
	}
	if own := RegistryOf(pre.uri); registry != "" && own != "" && hostOf(registry) != own {
		r.Warn(at, "its registryuri is %s, and the image %s is of the registry %s: these credentials are not used",
			document.Quote(hostOf(registry)), document.Quote(pre.uri), document.Quote(own))
		return
	}
	data, err := json.Marshal(l)
	if err != nil {
		r.Problem(at, "%v", err)
		return
	}
	if before, ok := ls[loginKey+pre.uri]; ok && before != string(data) {
		r.Problem(at, "two prerequisites name the image %s, with different credentials", document.Quote(pre.uri))
	}
	ls[loginKey+pre.uri] = string(data)
}

// RegistryOf is the registry of an image; "" where the image has no valid name.
func RegistryOf(image string) string {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	return reference.Domain(ref)
}

// hostOf is the host of a registryuri, which may have a scheme and a path, in the form that
// images use.
func hostOf(registry string) string {
	_, rest, found := strings.Cut(registry, "://")
	if !found {
		rest = registry
	}
	host, _, _ := strings.Cut(strings.ToLower(rest), "/")
	if same := strings.TrimPrefix(host, "index."); same == RegistryOf("any") {
		return same
	}
	return host
}
