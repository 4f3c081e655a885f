package kube_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/combsched/comb/internal/executor/kube/link"
)

// A pod is let in by the token that its kubelet gave it, and by no other's: not by one of its copy
// in another namespace, nor of another pod, nor one for somebody else.
func TestWhoIsLetIn(t *testing.T) {
	d := newDriver(t, 9)
	d.api.Linger()
	one, two, red := d.of("", "n0"), d.of("", "n2"), d.of("red", "n0")
	pod := func(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
	admit := func(key, token string) error { return d.e.PodHandler().Admit(t.Context(), pod(key), token) }
	d.runsIn("comb", one, 0)
	d.runsIn("comb", two, 0)
	d.runsIn("red", red, 0)
	a, b, c := d.podOf(one, 0), d.podOf(two, 0), d.podOf(red, 0)
	for _, key := range []string{a, b, c, a} {
		d.until("it is let in", func() bool { return admit(key, d.api.Token(key, link.Audience)) == nil })
	}
	if n := d.api.Asked()["keys"]; n != 1 {
		t.Errorf("the keys were asked for %d times", n)
	}
	copied := d.forge(c, "blue")
	uid, hour := string(d.bodyOf(a).UID), time.Now().Add(time.Hour)
	if err := admit(a, d.api.TokenOf("comb", a, uid, link.Audience, hour)); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"another pod's":        d.api.Token(b, link.Audience),
		"for another":          d.api.Token(a, "vault"),
		"none":                 "",
		"garbage":              "a.b.c",
		"of a pod before":      d.api.TokenOf("comb", a, "uid-1", link.Audience, hour), // of the same name
		"of another namespace": d.api.TokenOf("red", a, uid, link.Audience, hour),
		"stale":                d.api.TokenOf("comb", a, uid, link.Audience, time.Now().Add(-2*time.Minute)),
	} {
		if err := admit(a, token); !errors.Is(err, link.ErrToken) {
			t.Errorf("a token that is %s: %v", name, err)
		}
	}
	if err := admit(c, d.api.Token(copied, link.Audience)); !errors.Is(err, link.ErrToken) {
		t.Errorf("the token of a copy in another namespace: %v", err)
	}
	d.api.Strip(copied)
	if err := d.e.PodHandler().Admit(t.Context(), "comb-0-1-0-1-0", d.api.Token(a, link.Audience)); !errors.Is(err, link.ErrToken) {
		t.Errorf("for a pod that is none: %v", err)
	}

	// What was verified holds while the issuer is away; a new token waits for it.
	token := d.api.Token(a, link.Audience)
	if err := admit(a, token); err != nil {
		t.Fatal(err)
	}
	d.api.RotateKeys()
	if err := admit(a, token); err != nil {
		t.Errorf("a token that was verified: %v", err)
	}
	if err := admit(a, d.api.Token(a, link.Audience)); err == nil || errors.Is(err, link.ErrToken) {
		t.Errorf("one of a key that is not known yet: %v", err)
	}

	// A pod of an earlier version shows what stands in its Secret.
	key, err := os.ReadFile(filepath.Join(d.dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "line\nc\n%s", a)
	old := hex.EncodeToString(mac.Sum(nil))
	if err := admit(a, old); err != nil {
		t.Errorf("the token of an earlier version: %v", err)
	}
	if err := admit(b, old); !errors.Is(err, link.ErrToken) {
		t.Errorf("that of another pod: %v", err)
	}

	// A new server knows no pod at first, and has asked for no key.
	d.restart()
	d.until("a new server lets it in", func() bool { return admit(a, d.api.Token(a, link.Audience)) == nil })
	last := d.api.Token(a, link.Audience)
	d.end(one)
	d.until("it is gone", func() bool { return d.podOf(one, 0) == "" })
	d.until("its token is for nothing", func() bool {
		return errors.Is(admit(a, last), link.ErrNoTask) && errors.Is(admit(a, old), link.ErrNoTask)
	})
	d.finish()
}
