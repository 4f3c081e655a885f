package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
)

// A client without a token learns that a first administrator is wanted, and makes it with the code;
// the page of another site cannot.
func TestSetUp(t *testing.T) {
	w := setup{gpus: 1}.open(t)
	ctx := context.Background()
	if ways, err := w.with("").WaysIn(ctx); err != nil || !ways.Setup || !ways.Password {
		t.Fatalf("%+v, %v", ways, err)
	}
	code, _ := w.people.SetupCode()
	body, err := json.Marshal(rest.SetUp{Code: code, SignIn: rest.SignIn{User: "alice", Password: canary, Cookie: true}})
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]string{"Authorization": "", "Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}
	if status, _, text := w.request("POST", rest.Prefix+"/setup", string(body), header); status != http.StatusForbidden {
		t.Errorf("from another site: %d %s", status, text)
	}
	delete(header, "Sec-Fetch-Site")
	status, got, text := w.request("POST", rest.Prefix+"/setup", string(body), header)
	cookie, _, _ := strings.Cut(got.Get("Set-Cookie"), ";")
	if status != http.StatusOK || !strings.HasPrefix(cookie, "comb_session=comb_") || strings.Contains(text, "comb_") {
		t.Fatalf("%d %v %s", status, got, text)
	}
	status, _, text = w.request("GET", rest.Prefix+"/me", "", map[string]string{"Authorization": "", "Cookie": cookie})
	if status != http.StatusOK || !strings.Contains(text, `"administrator":true`) {
		t.Errorf("%d %s", status, text)
	}
	if ways, err := w.with("").WaysIn(ctx); err != nil || ways.Setup {
		t.Errorf("%+v, %v", ways, err)
	}
	if status, _, text := w.request("POST", rest.Prefix+"/setup", string(body), header); status != http.StatusConflict {
		t.Errorf("the code a second time: %d %s", status, text)
	}
}
