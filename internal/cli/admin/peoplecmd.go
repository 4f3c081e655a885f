// Package admin has the commands for administrators: signing in, users, groups, tokens and
// the audit log; nodes; the configuration; images; machines and clusters before there is a
// server. It must not decide what a server does.
package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
)

// peopleCommands are the commands of users, groups, tokens, sessions and the audit log.
type peopleCommands struct{ *cli.App }

// all are the commands, of the first level.
func (k *peopleCommands) all() []*cobra.Command {
	return []*cobra.Command{k.login(), k.logout(), k.whoami(), k.passwd(), k.contextNoun(), k.userNoun(),
		k.groupNoun(), k.tokenNoun(), k.auditNoun()}
}

// people returns the server's calls about people.
func (k *peopleCommands) people() (rest.People, error) {
	client, err := k.Client()
	if err != nil {
		return rest.People{}, err
	}
	return client.People(), nil
}

// newPassword makes a password that cannot be guessed: 130 random bits.
func newPassword() string { return strings.ToLower(rand.Text()) }

// list writes a list as one cell.
func list(names []string) string { return strings.Join(names, ",") }

// yes writes a boolean as one cell.
func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (k *peopleCommands) tokenNoun() *cobra.Command {
	user, all := "", false
	whose := func(c *cobra.Command) string {
		if all {
			return "*"
		}
		return user
	}
	show := &cobra.Command{Use: "list", Short: "List the own tokens, sessions among them", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.Tokens(c.Context(), whose(c))
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				t.Head("ID", "KIND", "NAME", "USER", "MAY", "CREATED", "USED", "EXPIRES")
				for _, o := range out.Tokens {
					t.Row(o.ID, o.Kind, o.Name, o.User, may(&o), k.When(o.Created), k.When(o.Used), k.When(o.Expires))
				}
			})
		}}
	show.Flags().StringVar(&user, "user", "", "those of another user; for administrators")
	show.Flags().BoolVar(&all, "all", false, "those of all users; for administrators")
	revoke := &cobra.Command{Use: "revoke ID", Short: "End a token at once, with the streams and commands that it opened", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			if err := people.RevokeToken(c.Context(), args[0], whose(c)); err != nil {
				return k.guess(c, err, args[0], func(ctx context.Context, client *rest.Client) (ids []string,
					err error) {
					out, err := client.People().Tokens(ctx, whose(c))
					for _, t := range out.Tokens {
						ids = append(ids, t.ID)
					}
					return ids, err
				})
			}
			return k.Show(rest.Token{ID: args[0]}, func(t *cli.Table) { t.Line("token %s revoked", args[0]) })
		}}
	revoke.Flags().StringVar(&user, "user", "", "one of another user; for administrators")
	return cli.Noun("token", "Tokens: by which programs ask", show, k.tokenCreate(), revoke)
}

// may describes what a token may be used for.
func may(t *rest.Token) string {
	text := "full access"
	if t.ReadOnly {
		text = "reads only"
	}
	if len(t.VCs) > 0 {
		text += ", in " + list(t.VCs)
	}
	return text
}

func (k *peopleCommands) tokenCreate() *cobra.Command {
	var in rest.NewToken
	user := ""
	c := &cobra.Command{Use: "create NAME", Short: "Make a token for a program, and print it this once",
		Args: cobra.ExactArgs(1),
		Long: `Make a token for a program. It is printed this once; the server keeps only a hash. A
token never gives more than its user may, and ends when its user's password changes. Only
a user who signed in can make one: a program's token makes no others.`,
		Example: "  comb token create nightly --vc vision --expires 30d > nightly.token\n  comb job list --token-file nightly.token",
		RunE: func(c *cobra.Command, args []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			in.Name = args[0]
			out, err := people.CreateToken(c.Context(), in, user)
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				t.Line("%s", out.Secret)
				if user == "" {
					k.sayRoleless(c.Context(), people, in.VCs)
				}
				k.Say(fmt.Sprintf("token %s of %s, until %s: it is shown this once", out.ID, out.User,
					k.When(out.Expires)))
			})
		}}
	c.Flags().StringSliceVar(&in.VCs, "vc", nil, "valid for this virtual cluster alone, with those inside of it (may repeat)")
	c.Flags().BoolVar(&in.ReadOnly, "read-only", false, "it changes nothing")
	c.Flags().StringVar(&in.Expires, "expires", "", "how long it is valid, such as 30d (default 366d)")
	c.Flags().StringVar(&user, "user", "", "of another user; for administrators")
	return c
}

// sayRoleless warns of virtual clusters of a token in which the caller has no role.
func (k *peopleCommands) sayRoleless(ctx context.Context, people rest.People, vcs []string) {
	if len(vcs) == 0 {
		return
	}
	me, err := people.Me(ctx)
	if err != nil || me.Administrator {
		return
	}
	for _, vc := range vcs {
		if !slices.ContainsFunc(me.VCs, func(m rest.MyVC) bool { return string(m.Name) == vc }) {
			k.Say(fmt.Sprintf("%s has no role in virtual cluster %s now: the token may do nothing there until it has one", me.Name, vc))
		}
	}
}

func (k *peopleCommands) auditNoun() *cobra.Command {
	limit, before := 50, int64(0)
	show := &cobra.Command{Use: "list", Short: "List what was done and refused, newest first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return cli.Usage(c, "--limit %d: want 1 to 1000 lines", limit)
			}
			if before < 0 {
				return cli.Usage(c, "--before %d: want the number of a line of the log", before)
			}
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.Audit(c.Context(), before, limit)
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				t.Head("LINE", "TIME", "USER", "FROM", "VERB", "OBJECT", "OUTCOME", "DETAIL")
				for _, l := range out.Lines {
					t.Row(fmt.Sprint(l.Seq), k.When(l.Time), l.User, l.From, l.Verb, l.Object, l.Outcome, l.Detail)
				}
				if out.Next > 0 {
					k.Say(fmt.Sprintf("there are older lines: comb audit list --before %d", out.Next))
				}
			})
		}}
	show.Flags().IntVar(&limit, "limit", limit, "so many lines, up to 1000")
	show.Flags().Int64Var(&before, "before", 0, "the lines before this one (default: the newest)")
	verify := &cobra.Command{Use: "verify", Short: "Check that no line of the audit log was changed, removed or put in", Args: cobra.NoArgs,
		Long: `Have the server follow the chain of its audit log. Each line holds a digest of all before
it; the head is that of the last one. A head that is kept elsewhere shows later that no
line up to it was changed. "comb journal verify" checks the same without a server, and that no
line is missing at the end.`,
		RunE: func(c *cobra.Command, _ []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.VerifyAudit(c.Context())
			if err != nil {
				return err
			}
			if !out.Sound {
				return fmt.Errorf("%s; %d lines before it are sound", out.Problem, out.Lines-out.Forgot)
			}
			return k.Show(out, func(t *cli.Table) {
				t.Row("lines", fmt.Sprint(out.Lines))
				if out.Forgot > 0 {
					t.Row("forgotten", fmt.Sprintf("1 to %d, as a later line says", out.Forgot))
				}
				t.Row("head", out.Head)
				t.Row("audit log", "sound")
			})
		}}
	return cli.Noun("audit", "The audit log: which user did what", show, verify)
}

// guess adds the likely name to a "not found" error.
func (k *peopleCommands) guess(c *cobra.Command, err error, word string, of cli.Names) error {
	client, _ := k.Client()
	return k.DidYouMean(c.Context(), client, err, cli.Guess{Word: word, List: of})
}
