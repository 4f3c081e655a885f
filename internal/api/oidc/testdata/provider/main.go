// Command provider is an OpenID provider for tests: the example server of zitadel/oidc, which also
// tells the groups of its users. It is a module of its own, so that Comb does not depend on it.
//
//	provider PORT USERS GROUPS CALLBACK
//
// PORT is a file into which it writes the port that it listens on, USERS one as the example server
// reads it, GROUPS one of JSON, subject to list of groups; it is read again each time, and until it
// is there the provider is down: each answer is 503.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

type withGroups struct {
	*storage.Storage
	file string
}

// SetUserinfoFromToken adds the groups to the userinfo endpoint.
func (s withGroups) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	groups := map[string][]string{}
	if err := json.Unmarshal(data, &groups); err != nil {
		return err
	}
	info.AppendClaims("groups", groups[subject])
	return nil
}

func main() {
	written, users, groups, callback := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	storage.RegisterClients(storage.WebClient("comb", "canary-client-secret", callback))
	known, err := storage.StoreFromFile(users)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(written+".new", []byte(port), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename(written+".new", written); err != nil {
		log.Fatal(err)
	}
	issuer := "http://localhost:" + port + "/"
	up := exampleop.SetupServer(issuer, withGroups{storage.NewStorage(known), groups}, nil, false)
	log.Fatal(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(groups); err != nil {
			http.Error(w, "the provider is down", http.StatusServiceUnavailable)
			return
		}
		up.ServeHTTP(w, r)
	})))
}
