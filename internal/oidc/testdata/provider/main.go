// Command provider is an OpenID provider for tests: the example server of zitadel/oidc, which also tells the groups of its
// users. It is a module of its own, so that Comb does not depend on it.
//
//	provider PORT USERS GROUPS CALLBACK
//
// USERS is a file as the example server reads it, GROUPS one of JSON, subject to list of groups; it is read again each time.
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

// SetUserinfoFromToken adds the groups to what the userinfo endpoint tells.
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
	port, users, groups, callback := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	storage.RegisterClients(storage.WebClient("comb", "canary-client-secret", callback))
	known, err := storage.StoreFromFile(users)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	issuer := "http://localhost:" + port + "/"
	log.Fatal(http.Serve(l, exampleop.SetupServer(issuer, withGroups{storage.NewStorage(known), groups}, nil, false)))
}
