package oidc

import (
	"fmt"
	"strings"
)

// person reads the claims about a person. A missing name is an error; missing groups are
// none.
func (p *Provider) person(subject string, claims map[string]any) (Person, error) {
	text := func(name string) string {
		s, _ := claims[name].(string)
		return s
	}
	out := Person{Issuer: p.Issuer, Subject: subject, Name: text(p.NameClaim), Display: text("name"), Email: text("email")}
	if out.Name == "" {
		return out, fmt.Errorf("the identity provider does not say the user's name: the claim %q is missing; an administrator can name another with nameClaim, or ask for a scope that brings it",
			p.NameClaim)
	}
	name, ours := strings.CutSuffix(out.Name, p.NameSuffix)
	if !ours {
		return out, fmt.Errorf("the identity provider names you %q, which does not end with %q as the names of this server's users do: an administrator decides that with nameSuffix",
			clip(out.Name), p.NameSuffix)
	}
	out.Name = name
	switch v := claims[p.GroupClaim].(type) {
	case nil:
		// A provider leaves out too many groups, and names where they are. Without groups the
		// user would lose those that it has.
		elsewhere, _ := claims["_claim_names"].(map[string]any)
		if _, ok := elsewhere[p.GroupClaim]; ok {
			return out, fmt.Errorf("the identity provider has more groups of you than it tells in the claim %q: have it send only those that are assigned to the client", p.GroupClaim)
		}
	case string:
		out.Groups = []string{v}
	case []any:
		if len(v) > maxGroups {
			return out, fmt.Errorf("the identity provider names %d groups: at most %d are looked at", len(v), maxGroups)
		}
		for _, one := range v {
			s, ok := one.(string)
			if !ok {
				return out, fmt.Errorf("the claim %q is no list of texts", p.GroupClaim)
			}
			out.Groups = append(out.Groups, s)
		}
	default:
		return out, fmt.Errorf("the claim %q is no list of texts", p.GroupClaim)
	}
	return out, nil
}

// clip shortens a text of a stranger and removes what a line cannot show.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
