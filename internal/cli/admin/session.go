package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/cli/contexts"
	"github.com/combsched/comb/internal/core/model"
)

func (k *peopleCommands) login() *cobra.Command {
	var in signInFlags
	c := &cobra.Command{Use: "login", Short: "Sign in to a server with a password", Args: cobra.NoArgs,
		Long: `Sign in to a server with a password, which is asked for on the terminal. The session is kept
as a context, for this user of this machine alone, and is the current one from then on:
other commands ask that server, as that user. It lasts 12 hours.

A server without an administrator account prints a code when it starts. With --setup that
code makes the first one, of the name and the password that are asked for.

With --web the server's identity provider says which user it is: open the address that is
printed in a browser. Where the browser is on another machine, type the code that it shows.`,
		Example: "  comb login --server https://comb.example.com --user alice\n  comb login --user alice --password-stdin < password-file\n  comb login --server https://comb.example.com --web\n  comb login --setup --user alice",
		RunE:    func(c *cobra.Command, _ []string) error { return k.signIn(c, in) }}
	c.Flags().StringVar(&in.user, "user", "", "the user's name (default: asked for)")
	c.Flags().BoolVar(&in.stdin, "password-stdin", false, "read the password from standard input; with --setup the code and the password, one a line")
	c.Flags().BoolVar(&in.setup, "setup", false, "make the first administrator, with the code that the server printed")
	c.Flags().StringVar(&in.vc, "vc", "",
		"the virtual cluster of jobs that name none (comb context use NAME --vc VC sets it later)")
	c.Flags().BoolVar(&in.web, "web", false, "sign in by a browser, with the server's identity provider")
	return c
}

// signInFlags are the flags of a sign-in.
type signInFlags struct {
	user  string
	stdin bool
	setup bool
	web   bool
	vc    string
}

func (k *peopleCommands) signIn(c *cobra.Command, asked signInFlags) error {
	file, err := contexts.Load(contexts.Dir(k.Env)) // before opening a session that cannot be stored
	if err != nil {
		return err
	}
	target, err := k.Target()
	if err != nil {
		return err
	}
	server := target.URL
	if asked.web && (asked.setup || asked.stdin || asked.user != "") {
		return cli.Usage(c, "--web takes neither --user, --password-stdin nor --setup: the identity provider says which user it is")
	}
	if asked.user == "" && !asked.web {
		if asked.stdin {
			return cli.Usage(c, "--password-stdin needs --user")
		}
		if asked.user, err = k.ask(c.Context(), "user at "+server, k.Env("USER")); err != nil {
			return k.noTerminal(c, err, "--user and --password-stdin")
		}
	}
	k.warnClear(server)
	var out rest.SignedIn
	var was contexts.Context
	switch {
	case asked.setup:
		out, was, err = k.setUp(c, &file, target, asked)
	case asked.web:
		out, was, err = k.storeSession(&file, target, func(client *rest.Client) (rest.SignedIn, error) {
			return k.byBrowser(c.Context(), client, target.URL)
		})
	default:
		var password string
		if password, err = k.password(c, asked.stdin, "password of "+asked.user+" at "+server); err != nil {
			return err
		}
		out, was, err = k.enter(c.Context(), &file, target, rest.SignIn{User: asked.user, Password: password})
	}
	if err != nil {
		return err
	}
	if asked.vc != "" {
		if err := errors.Join(file.SetVC(file.Current, asked.vc),
			contexts.Save(contexts.Dir(k.Env), file)); err != nil {
			return err
		}
	}
	if was.Token != "" { // its session is no longer needed
		if old, err := cli.Dial(was.Target()); err == nil {
			_ = old.People().SignOut(c.Context())
		}
	}
	return k.Show(out, func(t *cli.Table) {
		t.Line("signed in as %s at %s, until %s", out.User, server, k.When(out.Expires))
	})
}

// setUp creates the first administrator, and stores its session as the current context.
func (k *peopleCommands) setUp(c *cobra.Command, file *contexts.File, t contexts.Target,
	asked signInFlags) (out rest.SignedIn,
	was contexts.Context, err error) {
	in := rest.SetUp{SignIn: rest.SignIn{User: asked.user}}
	if asked.stdin {
		in.Code, in.Password, err = k.twoLines("the code and the password")
	} else if in.Code, err = k.line(c.Context(), "code that the server printed: ", false); err == nil {
		in.Password, err = k.twice(c, "new password of "+asked.user)
	}
	if err = k.noTerminal(c, err, "--password-stdin"); err != nil {
		return out, was, err
	}
	return k.storeSession(file, t, func(client *rest.Client) (rest.SignedIn, error) {
		return client.People().SetUp(c.Context(), in)
	})
}

// enter signs in and stores the session as the current context. was is the context that it
// replaces.
func (k *peopleCommands) enter(ctx context.Context, file *contexts.File, t contexts.Target,
	in rest.SignIn) (out rest.SignedIn, was contexts.Context, err error) {
	if before := file.Find(contexts.NameOf(in.User, t.URL)); before != nil {
		in.Ticket = before.Ticket
	}
	return k.storeSession(file, t, func(client *rest.Client) (rest.SignedIn, error) {
		out, err := client.People().SignIn(ctx, in)
		if rest.CodeOf(err) == rest.CodeUnauthorized {
			err = cli.Hint{Err: err, Next: "an administrator can set another password with: comb user update NAME --password-stdin"}
		}
		return out, err
	})
}

// storeSession stores a new session at a server as the current context. was is the context that it
// replaces.
func (k *peopleCommands) storeSession(file *contexts.File, t contexts.Target,
	made func(*rest.Client) (rest.SignedIn, error)) (out rest.SignedIn, was contexts.Context, err error) {
	t.Token = ""
	client, err := cli.Dial(t)
	if err != nil {
		return out, was, err
	}
	if out, err = made(client); err != nil {
		return out, was, err
	}
	was = file.Put(contexts.Context{Name: contexts.NameOf(out.User, t.URL), Server: t.URL, User: out.User,
		Token: out.Token, Expires: int64(out.Expires), CA: string(t.CA), Ticket: out.Ticket})
	out.Token, out.Ticket = "", "" // secrets are not printed
	return out, was, contexts.Save(contexts.Dir(k.Env), *file)
}

// twoLines reads two lines of standard input.
func (k *peopleCommands) twoLines(what string) (one, two string, err error) {
	text, err := k.readSecret(2 * maxSecret)
	if err != nil {
		return "", "", err
	}
	one, two, ok := strings.Cut(text, "\n")
	if !ok || strings.Contains(two, "\n") {
		return "", "", fmt.Errorf("standard input must have two lines: %s", what)
	}
	return strings.TrimSuffix(one, "\r"), strings.TrimSuffix(two, "\r"), nil
}

// warnClear warns when a password would cross a network unencrypted.
func (k *peopleCommands) warnClear(server string) {
	u, err := url.Parse(contexts.Address(server))
	if err != nil || u.Scheme != "http" {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		k.Say("warning: the password goes to " + server + " without TLS: every machine on the way can read it")
	}
}

func (k *peopleCommands) logout() *cobra.Command {
	return &cobra.Command{Use: "logout", Short: "End the session of the current context, and forget it",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file, err := contexts.Load(contexts.Dir(k.Env))
			if err != nil {
				return err
			}
			now := file.Now()
			if now == nil {
				return errors.New("no user is signed in: the current context is " + contexts.Local)
			}
			gone := *now
			return k.forget(c.Context(), &file, gone)
		}}
}

// forget ends a context's session and removes the context. If the server cannot be reached
// the session expires by itself.
func (k *peopleCommands) forget(ctx context.Context, file *contexts.File, gone contexts.Context) error {
	client, err := cli.Dial(gone.Target())
	if err == nil {
		err = client.People().SignOut(ctx)
	}
	if _, missing := file.Delete(gone.Name); missing != nil {
		return missing
	}
	if saved := contexts.Save(contexts.Dir(k.Env), *file); saved != nil {
		return saved
	}
	if err != nil && rest.CodeOf(err) != rest.CodeUnauthorized { // else it has ended already
		k.Say(fmt.Sprintf("warning: the session at %s could not be ended, and lasts until %s: %v", gone.Server,
			k.When(model.Time(gone.Expires)), err))
	}
	return k.Show(gone, func(t *cli.Table) { t.Line("context %s is forgotten", gone.Name) })
}

func (k *peopleCommands) whoami() *cobra.Command {
	return &cobra.Command{Use: "whoami", Short: "Show as which user commands ask, and what it may do",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := k.Client()
			if err != nil {
				return err
			}
			me, err := client.People().Me(c.Context())
			if err != nil {
				return err
			}
			return k.Show(me, func(t *cli.Table) { k.drawMe(t, client.URL(), &me) })
		}}
}

func (k *peopleCommands) drawMe(t *cli.Table, server string, me *rest.Me) {
	name := me.Name
	if !me.Account {
		name += ", by the token in the data directory, without an account"
	}
	t.Row("user", name)
	t.Row("server", server)
	if me.Display != "" {
		t.Row("full name", me.Display)
	}
	t.Row("administrator", yes(me.Administrator))
	if me.Account {
		t.Row("groups", strings.Join(me.Groups, ", "))
	}
	if o := me.Token; o != nil && me.Account {
		t.Row("token", may(o)+" ("+o.Kind+" "+o.ID+")")
		t.Row("until", k.When(o.Expires))
	}
	t.Line("")
	t.Head("VC", "ROLE")
	for _, vc := range me.VCs {
		t.Row(string(vc.Name), vc.Role)
	}
}

func (k *peopleCommands) passwd() *cobra.Command {
	stdin := false
	c := &cobra.Command{Use: "passwd", Short: "Change the own password", Args: cobra.NoArgs,
		Long: `Change the own password. Both are asked for on the terminal. All sessions and tokens of the
user end; this machine is signed in again.`,
		RunE: func(c *cobra.Command, _ []string) error { return k.changePassword(c, stdin) }}
	c.Flags().BoolVar(&stdin, "password-stdin", false, "read the old and the new password from standard input, one a line")
	return c
}

func (k *peopleCommands) changePassword(c *cobra.Command, stdin bool) error {
	file, err := contexts.Load(contexts.Dir(k.Env))
	if err != nil {
		return err
	}
	target, err := k.Target()
	if err != nil {
		return err
	}
	client, err := cli.Dial(target)
	if err != nil {
		return err
	}
	me, err := client.People().Me(c.Context())
	if err != nil {
		return err
	}
	var in rest.PasswordChange
	if stdin {
		if in.Old, in.New, err = k.twoLines("the old and the new password"); err != nil {
			return err
		}
	} else {
		if in.Old, err = k.password(c, false, "present password of "+me.Name); err != nil {
			return err
		}
		if in.New, err = k.twice(c, "new password"); err != nil {
			return err
		}
	}
	if err := client.People().ChangePassword(c.Context(), in); err != nil {
		return err
	}
	out, _, err := k.enter(c.Context(), &file, target, rest.SignIn{User: me.Name, Password: in.New})
	if err != nil {
		return fmt.Errorf("the password is changed, but signing in with it failed: %w", err)
	}
	return k.Show(out, func(t *cli.Table) {
		t.Line("the password of %s is changed; all its other sessions and tokens have ended", me.Name)
	})
}

// shownContext is a context without its token.
type shownContext struct {
	contexts.Context
	Current bool `json:"current"`
}

func (k *peopleCommands) contextNoun() *cobra.Command {
	show := &cobra.Command{Use: "list", Short: "List the servers that this user is signed in to, and the current one",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := contexts.Load(contexts.Dir(k.Env))
			if err != nil {
				return err
			}
			out := []shownContext{{contexts.Context{Name: contexts.Local, VC: file.LocalVC}, file.Now() == nil}}
			for _, c := range file.Contexts {
				out = append(out, shownContext{c, c.Name == file.Current})
			}
			return k.Show(out, func(t *cli.Table) {
				t.Head("CURRENT", "NAME", "SERVER", "USER", "VC", "EXPIRES")
				for _, c := range out {
					mark, server, user := "", c.Server, c.User
					if c.Current {
						mark = "*"
					}
					if server == "" {
						server, user = "the one started on this machine", "by its token file"
					}
					t.Row(mark, c.Name, server, user, c.VC, k.When(model.Time(c.Expires)))
				}
			})
		}}
	forget := &cobra.Command{Use: "delete NAME", Short: "End the session of a context, and forget it",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: k.contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := contexts.Load(contexts.Dir(k.Env))
			if err != nil {
				return err
			}
			if args[0] == contexts.Local {
				return errors.New("the context " + contexts.Local + " is always there")
			}
			found := file.Find(args[0])
			if found == nil {
				return file.Use(args[0]) // its error lists the existing ones
			}
			return k.forget(c.Context(), &file, *found)
		}}
	return cli.Noun("context", "Contexts: the servers that this user is signed in to", show, k.contextUse(), forget)
}

// contextUse makes a context the current one.
func (k *peopleCommands) contextUse() *cobra.Command {
	vc := ""
	c := &cobra.Command{Use: "use NAME",
		Short: "Make a context the current one; local is the server started on this machine",
		Args:  cobra.ExactArgs(1),
		Long: `Make a context the current one: other commands ask its server, as its user. local is the server
started on this machine.

With --vc jobs that name no virtual cluster are of that one; --vc "" leaves it to the server again.
A job's virtual cluster is the first that is said: --vc of the command, the job file, the context;
else it is the only one that the user may submit to, else the one that is called default.`,
		Example:           "  comb context use alice@comb.example.com\n  comb context use local --vc vision",
		ValidArgsFunction: k.contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := contexts.Load(contexts.Dir(k.Env))
			if err != nil {
				return err
			}
			if err := file.Use(args[0]); err != nil {
				return err
			}
			if c.Flags().Changed("vc") {
				if err := file.SetVC(args[0], vc); err != nil {
					return err
				}
			}
			if err := contexts.Save(contexts.Dir(k.Env), file); err != nil {
				return err
			}
			of := ""
			if now := cmp.Or(file.Now(), &contexts.Context{VC: file.LocalVC}); now.VC != "" {
				of = "; jobs that name no virtual cluster are of " + now.VC
			}
			return k.Show(map[string]string{"current": args[0]},
				func(t *cli.Table) { t.Line("the current context is %s%s", args[0], of) })
		}}
	c.Flags().StringVar(&vc, "vc", "", "the virtual cluster of jobs that name none")
	return c
}

func (k *peopleCommands) contextNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	file, err := contexts.Load(contexts.Dir(k.Env))
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []string{contexts.Local}
	for _, c := range file.Contexts {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// noTerminal adds the flags that help where there is no terminal.
func (k *peopleCommands) noTerminal(c *cobra.Command, err error, flags string) error {
	if errors.Is(err, errNoTerminal) {
		return cli.Usage(c, "%v: give %s", err, flags)
	}
	return err
}

// checkSecret refuses what was probably not meant as a password.
func checkSecret(text string) error {
	switch {
	case text == "":
		return errors.New("the password is empty")
	case strings.ContainsAny(text, "\n\r\x00"):
		return errors.New("the password has more than one line: standard input must hold it alone")
	case len(text) > maxSecret:
		return fmt.Errorf("the password has more than %d bytes", maxSecret)
	}
	return nil
}
