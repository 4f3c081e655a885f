package people

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Cost is what argon2id needs for one password.
type Cost struct {
	KiB    uint32
	Passes uint32
}

// usual is at least one of the settings that OWASP's password storage page recommends: 19 MiB
// and 2 passes.
var usual = Cost{KiB: 19 << 10, Passes: 2}

// Sizes of hashes and passwords.
const (
	hashBytes = 32
	saltBytes = 16
	// MinPassword and MaxPassword bound a password, in bytes.
	MinPassword = 10
	MaxPassword = 256
)

// checkPassword refuses a password that is too easy to guess, or that no client can send.
func checkPassword(user, password string) string {
	switch {
	case len(password) < MinPassword:
		return fmt.Sprintf("the password has %d bytes: at least %d are needed", len(password), MinPassword)
	case len(password) > MaxPassword:
		return fmt.Sprintf("the password has %d bytes: at most %d are allowed", len(password), MaxPassword)
	case !utf8.ValidString(password) || strings.ContainsRune(password, 0):
		return "the password is not valid UTF-8 text"
	case strings.EqualFold(password, user) || strings.Trim(password, password[:1]) == "":
		return "the password is too easy to guess: it is the user's name, or one character again and again"
	}
	return ""
}

// hash makes a PHC string of a password.
func (c Cost) hash(password string) string {
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails
	sum := argon2.IDKey([]byte(password), salt, c.Passes, c.KiB, 1, hashBytes)
	e := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s",
		argon2.Version, c.KiB, c.Passes, e.EncodeToString(salt), e.EncodeToString(sum))
}

// matches reports whether a password has this PHC string. It always takes the same time.
func matches(phc, password string) bool {
	parts := strings.Split(phc, "$")
	var version, memory, passes, threads int
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil ||
		memory < 8 || memory > 1<<20 || passes < 1 || passes > 16 || threads < 1 || threads > 8 {
		return false
	}
	e := base64.RawStdEncoding
	salt, err := e.DecodeString(parts[4])
	if err != nil {
		return false
	}
	want, err := e.DecodeString(parts[5])
	if err != nil || len(want) < 16 || len(want) > 64 {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, uint32(passes), uint32(memory), uint8(threads), uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1
}
