package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/access"
	"github.com/combsched/comb/internal/core/model"
)

// userNames lists all users.
func userNames(ctx context.Context, c *rest.Client) (names []string, err error) {
	out, err := c.People().Users(ctx)
	for i := range out.Users {
		names = append(names, out.Users[i].Name)
	}
	return names, err
}

func (k *peopleCommands) userNoun() *cobra.Command {
	show := &cobra.Command{Use: "list", Short: "List users", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.Users(c.Context())
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				t.Head("NAME", "FULL NAME", "E-MAIL", "GROUPS", "ADMINISTRATOR", "CREATED")
				for i := range out.Users {
					u := &out.Users[i]
					t.Row(u.Name, u.Display, u.Email, list(slices.Compact(slices.Sorted(slices.Values(append(u.Groups,
						u.ProviderGroups...))))), standing(u), k.When(u.Created))
				}
			})
		}}
	get := &cobra.Command{Use: "get NAME", Short: "Show one user", Args: cobra.ExactArgs(1),
		ValidArgsFunction: k.Complete(userNames),
		RunE: func(c *cobra.Command, args []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.User(c.Context(), args[0])
			if err != nil {
				return k.guess(c, err, args[0], userNames)
			}
			return k.Show(out, func(t *cli.Table) { k.drawUser(t, &out) })
		}}
	return cli.Noun("user", "Users: people, and programs with an account", show, get, k.userCreate(), k.userUpdate(),
		k.userDelete())
}

func (k *peopleCommands) userDelete() *cobra.Command {
	yes := false
	c := &cobra.Command{Use: "delete NAME", Short: "Remove a user, its sessions and its tokens; its jobs stay",
		Args: cobra.ExactArgs(1), ValidArgsFunction: k.Complete(userNames)}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		people, err := k.people()
		if err != nil {
			return err
		}
		if !yes {
			if _, err := people.User(c.Context(), args[0]); err != nil { // before asking about a user that does not exist
				return k.guess(c, err, args[0], userNames)
			}
			if err := k.Confirm(fmt.Sprintf("Remove user %s, its sessions and its tokens? Its jobs stay.", args[0]),
				"to remove the user, repeat the command with --yes"); err != nil {
				return err
			}
		}
		if err := people.DeleteUser(c.Context(), args[0]); err != nil {
			return k.guess(c, err, args[0], userNames)
		}
		k.stillThere(c.Context(), args[0])
		return k.Show(map[string]string{"deleted": args[0]}, func(t *cli.Table) { t.Line("user %s deleted", args[0]) })
	}
	return c
}

// stillThere warns of jobs of a deleted user.
func (k *peopleCommands) stillThere(ctx context.Context, user string) {
	client, err := k.Client()
	if err != nil {
		return
	}
	list, err := client.Jobs(ctx, rest.JobQuery{Users: []model.Subject{model.Subject(user)},
		States: []model.Phase{model.Waiting, model.Active}, Limit: 1000})
	if err != nil || len(list.Jobs) == 0 {
		return
	}
	run, more := 0, ""
	for i := range list.Jobs {
		if list.Jobs[i].Phase == model.Active {
			run++
		}
	}
	if list.Next != "" {
		more = " or more"
	}
	k.Say(fmt.Sprintf("warning: user %s has jobs that have not ended (running: %d%s, waiting: %d%s): comb job stop --user %s stops them", user, run, more, len(list.Jobs)-run, more, user))
}

// standing says whether a user is an administrator, or is blocked.
func standing(u *rest.User) string {
	if u.Blocked {
		return "blocked"
	}
	return yes(u.Administrator)
}

func (k *peopleCommands) drawUser(t *cli.Table, u *rest.User) {
	t.Row("name", u.Name)
	t.Row("full name", u.Display)
	t.Row("e-mail", u.Email)
	t.Row("administrator", yes(u.Administrator))
	t.Row("blocked", yes(u.Blocked))
	t.Row("groups", list(u.Groups))
	if u.Provider != "" {
		t.Row("identity provider", u.Provider)
		t.Row("its groups", list(u.ProviderGroups))
	}
	drawIDs(t, u.UID, u.GID)
	t.Row("password", yes(u.HasPassword))
	t.Row("created", k.When(u.Created))
}

// madeUser is a new user with its generated password, which is shown only this once.
type madeUser struct {
	rest.User
	Password string `json:"password,omitempty"`
}

func (k *peopleCommands) userCreate() *cobra.Command {
	var in rest.NewUser
	file, stdin, ids := "", false, idFlags{}
	c := &cobra.Command{Use: "create [NAME]", Short: "Make a user, or with --csv many", Args: cobra.MaximumNArgs(1),
		Long: `Make a user. Without --password-stdin it gets a password that cannot be guessed, which is
printed this once; comb passwd changes it. With --csv each line of a file is a user, and
all are made or none. Its first line names the columns: name, and as needed display, email,
groups (with ; between them), admin (true or false), uid and gid. All mistakes are told at once.`,
		Example: "  comb user create alice --group vision --email alice@example.com\n  comb user create --csv people.csv",
		RunE: func(c *cobra.Command, args []string) error {
			if file != "" {
				if len(args) > 0 || stdin || c.Flags().NFlag() > 1 && onlyOfOne(c) {
					return cli.Usage(c, "--csv names the users and all that is known of them: leave NAME and the flags of one user out")
				}
				return k.createMany(c, file)
			}
			if len(args) == 0 {
				return cli.Usage(c, "comb user create needs NAME, or --csv FILE")
			}
			in.Name = args[0]
			if err := ids.into(&in.UID, &in.GID); err != nil {
				return cli.Usage(c, "%s", err.Error())
			}
			return k.createOne(c, in, stdin)
		}}
	f := c.Flags()
	f.StringVar(&in.Display, "display", "", "the full name")
	f.StringVar(&in.Email, "email", "", "the e-mail address")
	f.StringSliceVar(&in.Groups, "group", nil, "a group that it is in (may repeat)")
	f.BoolVar(&in.Administrator, "admin", false, "an administrator of the whole cluster")
	f.BoolVar(&stdin, "password-stdin", false, "read the password from standard input (default: one is made)")
	ids.add(c, "of its tasks' user", "of its tasks' group")
	f.StringVar(&file, "csv", "", "make the users of this file; - is standard input")
	_ = c.MarkFlagFilename("csv", "csv")
	return c
}

// onlyOfOne reports whether a flag was given that makes sense for one user only.
func onlyOfOne(c *cobra.Command) bool {
	for _, name := range []string{"display", "email", "group", "admin", "password-stdin", "uid", "gid"} {
		if c.Flags().Changed(name) {
			return true
		}
	}
	return false
}

func (k *peopleCommands) createOne(c *cobra.Command, in rest.NewUser, stdin bool) error {
	people, err := k.people()
	if err != nil {
		return err
	}
	made := ""
	if stdin {
		in.Password, err = k.password(c, true, "")
	} else {
		made = newPassword()
		in.Password = made
	}
	if err != nil {
		return err
	}
	out, err := people.CreateUsers(c.Context(), in)
	if err != nil {
		return k.guess(c, err, in.Name, userNames)
	}
	return k.showMade(out.Users, map[string]string{in.Name: made})
}

// showMade prints new users, and their generated passwords.
func (k *peopleCommands) showMade(users []rest.User, passwords map[string]string) error {
	out := struct {
		Users []madeUser `json:"users"`
	}{}
	secret := false
	for _, u := range users {
		out.Users = append(out.Users, madeUser{u, passwords[u.Name]})
		secret = secret || passwords[u.Name] != ""
	}
	return k.Show(out, func(t *cli.Table) {
		if !secret {
			for i := range out.Users {
				t.Line("user %s created", out.Users[i].Name)
			}
			return
		}
		t.Head("USER", "PASSWORD")
		for i := range out.Users {
			t.Row(out.Users[i].Name, out.Users[i].Password)
		}
		k.Say("the passwords are shown this once; comb passwd changes them")
	})
}

func (k *peopleCommands) userUpdate() *cobra.Command {
	display, email, groups := "", "", []string{}
	admin, blocked, stdin, generate, ids := false, false, false, false, idFlags{}
	c := &cobra.Command{Use: "update NAME", Short: "Change a user; what no flag names stays", Args: cobra.ExactArgs(1),
		Long: `Change a user; what no flag names stays. A new password, and blocking, end the user's
sessions and tokens.`,
		Example:           "  comb user update alice --group vision,nlp\n  comb user update alice --blocked\n  comb user update alice --new-password",
		ValidArgsFunction: k.Complete(userNames)}
	f := c.Flags()
	f.StringVar(&display, "display", "", "the full name")
	f.StringVar(&email, "email", "", "the e-mail address")
	f.StringSliceVar(&groups, "group", nil, "all groups that it is in (may repeat); comb group update adds and removes one")
	f.BoolVar(&admin, "admin", false, "an administrator of the whole cluster; --admin=false takes that away")
	f.BoolVar(&blocked, "blocked", false, "may not sign in, and none of its tokens is valid; --blocked=false lets it in again")
	f.BoolVar(&stdin, "password-stdin", false, "read a new password from standard input")
	f.BoolVar(&generate, "new-password", false, "make a new password, and print it this once")
	ids.add(c, "of its tasks' user, of jobs that are submitted from now on; none takes it away",
		"of its tasks' group; none takes it away")
	c.MarkFlagsMutuallyExclusive("password-stdin", "new-password")
	c.RunE = func(c *cobra.Command, args []string) error {
		var change rest.UserChange
		given(c, "display", &change.Display, display)
		given(c, "email", &change.Email, email)
		given(c, "group", &change.Groups, groups)
		given(c, "admin", &change.Administrator, admin)
		given(c, "blocked", &change.Blocked, blocked)
		if err := ids.change(c, &change.UID, &change.GID); err != nil {
			return cli.Usage(c, "%s", err.Error())
		}
		if change == (rest.UserChange{}) && !stdin && !generate {
			return cli.Usage(c, "nothing is to be changed: name at least one flag")
		}
		people, err := k.people()
		if err != nil {
			return err
		}
		made := ""
		switch {
		case stdin:
			var text string
			if text, err = k.password(c, true, ""); err != nil {
				return err
			}
			change.Password = &text
		case generate:
			made = newPassword()
			change.Password = &made
		}
		out, err := people.UpdateUser(c.Context(), args[0], change)
		if err != nil {
			return k.guess(c, err, args[0], userNames)
		}
		return k.Show(madeUser{out, made}, func(t *cli.Table) {
			if made != "" {
				t.Line("%s", made)
				k.Say("the new password of " + args[0] + " is shown this once; its sessions and tokens have ended")
				return
			}
			t.Line("user %s changed", args[0])
		})
	}
	return c
}

// given sets a field to a flag's value, if the flag was given.
func given[T any](c *cobra.Command, flag string, to **T, value T) {
	if c.Flags().Changed(flag) {
		*to = &value
	}
}

// groupNames lists all groups.
func groupNames(ctx context.Context, c *rest.Client) (names []string, err error) {
	out, err := c.People().Groups(ctx)
	for i := range out.Groups {
		names = append(names, out.Groups[i].Name)
	}
	return names, err
}

func (k *peopleCommands) groupNoun() *cobra.Command {
	show := &cobra.Command{Use: "list", Short: "List groups", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.Groups(c.Context())
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) {
				t.Head("NAME", "MEMBERS", "DESCRIPTION")
				for i := range out.Groups {
					g := &out.Groups[i]
					t.Row(g.Name, fmt.Sprint(len(g.Members)), g.Description)
				}
			})
		}}
	get := &cobra.Command{Use: "get NAME", Short: "Show one group with its members", Args: cobra.ExactArgs(1),
		ValidArgsFunction: k.Complete(groupNames),
		RunE: func(c *cobra.Command, args []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			out, err := people.Group(c.Context(), args[0])
			if err != nil {
				return k.guess(c, err, args[0], groupNames)
			}
			return k.Show(out, func(t *cli.Table) { k.drawGroup(t, &out) })
		}}
	gone := &cobra.Command{Use: "delete NAME", Short: "Remove a group, also from its members",
		Args: cobra.ExactArgs(1), ValidArgsFunction: k.Complete(groupNames),
		RunE: func(c *cobra.Command, args []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			if err := people.DeleteGroup(c.Context(), args[0]); err != nil {
				return k.guess(c, err, args[0], groupNames)
			}
			k.stillGiven(c.Context(), args[0])
			return k.Show(map[string]string{"deleted": args[0]},
				func(t *cli.Table) { t.Line("group %s deleted", args[0]) })
		}}
	return cli.Noun("group", "Groups: sets of users, to which the cluster file gives virtual clusters", show, get,
		k.groupCreate(), k.groupUpdate(), gone)
}

// stillGiven warns when the cluster file in force names a deleted group: a new group of that
// name would get its roles.
func (k *peopleCommands) stillGiven(ctx context.Context, group string) {
	client, err := k.Client()
	if err != nil {
		return
	}
	now, err := client.Config(ctx)
	if err != nil || now.Config == nil {
		return
	}
	if vcs := access.VCsGranted(now.Config.Access, group); len(vcs) > 0 {
		k.Say(fmt.Sprintf("warning: the cluster file in force names group %s in access of virtual clusters %s: take it out there (comb config show, comb config apply), or a later group of that name gets it",
			group, strings.Join(vcs, ", ")))
	}
	own := false
	for i := range now.Config.Cluster.VCs {
		own = own || string(now.Config.Cluster.VCs[i].Name) == group
	}
	if own && !slices.ContainsFunc(now.Config.Access, func(g access.Grant) bool { return string(g.VC) == group }) {
		k.Say(fmt.Sprintf("warning: virtual cluster %[1]s has no access in the cluster file, so the group %[1]s alone used it: "+
			"give it access there, or make the group again", group))
	}
}

func (k *peopleCommands) drawGroup(t *cli.Table, g *rest.Group) {
	t.Row("name", g.Name)
	t.Row("description", g.Description)
	if g.External != "" {
		t.Row("external name", g.External)
	}
	drawIDs(t, g.UID, g.GID)
	t.Row("created", k.When(g.Created))
	t.Row("members", list(g.Members))
}

func (k *peopleCommands) groupCreate() *cobra.Command {
	var in rest.NewGroup
	ids := idFlags{}
	c := &cobra.Command{Use: "create NAME", Short: "Make a group", Args: cobra.ExactArgs(1),
		Long: `Make a group. What it may do in which virtual cluster is said in the cluster file, by
"access"; see comb config plan.`,
		Example: "  comb group create vision --member alice,bob",
		RunE: func(c *cobra.Command, args []string) error {
			people, err := k.people()
			if err != nil {
				return err
			}
			in.Name = args[0]
			if err := ids.into(&in.UID, &in.GID); err != nil {
				return cli.Usage(c, "%s", err.Error())
			}
			out, err := people.CreateGroup(c.Context(), in)
			if err != nil {
				return err
			}
			return k.Show(out, func(t *cli.Table) { t.Line("group %s created", args[0]) })
		}}
	c.Flags().StringVar(&in.Description, "description", "", "what it is for")
	c.Flags().StringVar(&in.External, "external", "", "its name at the identity provider")
	c.Flags().StringSliceVar(&in.Members, "member", nil, "a user that is in it (may repeat)")
	ids.add(c, "of the tasks of members that have none", "of the group of the tasks of members that have none")
	return c
}

func (k *peopleCommands) groupUpdate() *cobra.Command {
	var in rest.GroupChange
	description, external, ids := "", "", idFlags{}
	c := &cobra.Command{Use: "update NAME", Short: "Change a group, or its members", Args: cobra.ExactArgs(1),
		ValidArgsFunction: k.Complete(groupNames),
		Example:           "  comb group update vision --add alice --remove bob"}
	c.Flags().StringVar(&description, "description", "", "what it is for")
	c.Flags().StringVar(&external, "external", "", "its name at the identity provider")
	c.Flags().StringSliceVar(&in.Add, "add", nil, "a user that comes in (may repeat)")
	c.Flags().StringSliceVar(&in.Remove, "remove", nil, "a user that goes out (may repeat)")
	ids.add(c, "of the tasks of members that have none; none takes it away",
		"of the group of the tasks of members that have none; none takes it away")
	c.RunE = func(c *cobra.Command, args []string) error {
		given(c, "description", &in.Description, description)
		given(c, "external", &in.External, external)
		if err := ids.change(c, &in.UID, &in.GID); err != nil {
			return cli.Usage(c, "%s", err.Error())
		}
		numbers := in.UID != nil || in.GID != nil
		if in.Description == nil && in.External == nil && !numbers && len(in.Add)+len(in.Remove) == 0 {
			return cli.Usage(c, "nothing is to be changed: name at least one flag")
		}
		people, err := k.people()
		if err != nil {
			return err
		}
		out, err := people.UpdateGroup(c.Context(), args[0], in)
		if err != nil {
			return k.guess(c, err, args[0], groupNames)
		}
		return k.Show(out, func(t *cli.Table) { t.Line("group %s changed", args[0]) })
	}
	return c
}
