package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/cli"
)

// pushFlags are the flags of comb image push.
type pushFlags struct {
	user, authorities string
	stdin, plain      bool
}

// Pushed is what comb image push did.
type Pushed struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
}

func (k *imageCommands) push() *cobra.Command {
	var f pushFlags
	c := &cobra.Command{Use: "push FILE [REGISTRY/NAME:TAG]",
		Short: "Push an image in a file to its registry, without a container engine",
		Args:  cobra.RangeArgs(1, 2),
		Long: `Push an image in a file to its registry, without a container engine and without a server: what make image
and docker save write. Without a name it is pushed under that which stands in the file. The password is that of
--user, else the one that ~/.docker/config.json ($DOCKER_CONFIG) has for the registry, itself or by the program that it
names. A registry on this machine may speak plain HTTP.`,
		Example: "  make image IMAGE=registry.example/comb:1 && comb image push bin/comb-image.tar\n" +
			"  comb image push image.tar registry.example/team/train:3 --user ada --password-stdin < password"}
	c.Flags().StringVar(&f.user, "user", "", "the user at the registry; with --password-stdin")
	c.Flags().BoolVar(&f.stdin, "password-stdin", false, "read the password of --user from standard input")
	c.Flags().BoolVar(&f.plain, "insecure-http", false,
		"allow a registry on another machine that speaks plain HTTP: passwords and images cross the network in clear")
	c.Flags().StringVar(&f.authorities, "registry-ca", "",
		"file with the certificate of the authority that signed the registry's, PEM (default: those of this machine)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if (f.user != "") != f.stdin {
			return cli.Usage(c, "--user and --password-stdin are given both or not at all")
		}
		to := ""
		if len(args) == 2 {
			to = args[1]
		}
		image, written, err := readImage(args[0])
		if err != nil {
			return err
		}
		host, repository, tag, err := splitImage(cli.First(to, written))
		if err != nil {
			return cli.Usage(c, "%w: comb image push %s REGISTRY/NAME:TAG", err, args[0])
		}
		o := registryOptions{host: host, repository: repository, plain: f.plain, say: k.Say}
		if o.login, err = k.loginTo(c.Context(), host, &f); err != nil {
			return err
		}
		if f.authorities != "" {
			if o.authorities, err = k.ReadFile(f.authorities, 1<<20); err != nil {
				return err
			}
		}
		r, err := openRegistry(c.Context(), o)
		if err != nil {
			return err
		}
		if err := r.push(c.Context(), image, tag); err != nil {
			return err
		}
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		out := Pushed{host + "/" + repository + ":" + tag, digest.String()}
		return k.Show(out, func(t *cli.Table) { t.Line("pushed %s@%s", out.Image, out.Digest) })
	}
	return c
}

// readImage opens the image in a file, and says under which name it was written; "": none.
func readImage(file string) (v1.Image, string, error) {
	open := func() (io.ReadCloser, error) { return os.Open(file) }
	list, err := tarball.LoadManifest(open)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return nil, "", cli.CannotRead(file, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s holds no image as make image and docker save write it: %w", file, err)
	}
	if len(list) != 1 {
		return nil, "", fmt.Errorf("%s holds %d images: write one alone to a file (docker save NAME)", file, len(list))
	}
	var tag *name.Tag
	image, err := tarball.Image(open, tag)
	if err != nil {
		return nil, "", fmt.Errorf("the image in %s cannot be read: %w", file, err)
	}
	if len(list[0].RepoTags) == 0 {
		return image, "", nil
	}
	return image, list[0].RepoTags[0], nil
}

// splitImage parses the name of an image, which must say its registry.
func splitImage(text string) (host, repository, tag string, err error) {
	if text == "" {
		return "", "", "", errors.New("the image in the file has no name: give it one")
	}
	ref, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return "", "", "", fmt.Errorf("%q is no name of an image: %w", text, err)
	}
	tagged, ok := reference.TagNameOnly(ref).(reference.NamedTagged)
	if _, digested := ref.(reference.Digested); !ok || digested {
		return "", "", "", fmt.Errorf("%q names a digest, which follows from the image: name a tag", text)
	}
	host = reference.Domain(ref)
	if first, _, _ := strings.Cut(text, "/"); host == "docker.io" && first != host && first != "index.docker.io" {
		return "", "", "", fmt.Errorf("%q names no registry (Docker's own is docker.io): put it in front", text)
	}
	return host, reference.Path(ref), tagged.Tag(), nil
}

// dockerConfig is what is read of ~/.docker/config.json.
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredsStore  string                `json:"credsStore"`
	CredHelpers map[string]string     `json:"credHelpers"`
}

// dockerAuth is how one signs in to a registry.
type dockerAuth struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// loginTo is how the caller signs in to a registry.
func (k *imageCommands) loginTo(ctx context.Context, host string, f *pushFlags) (login, error) {
	if f.user != "" {
		text, err := io.ReadAll(io.LimitReader(k.In, maxPassword+1))
		if err != nil || len(text) > maxPassword {
			return login{}, fmt.Errorf("the password cannot be read from standard input: it may have %d bytes",
				maxPassword)
		}
		return login{user: f.user, password: strings.TrimRight(string(text), "\r\n")}, nil
	}
	file := filepath.Join(cli.First(k.Env("DOCKER_CONFIG"), filepath.Join(k.Env("HOME"), ".docker")), "config.json")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return login{}, nil
	}
	var c dockerConfig
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return login{}, fmt.Errorf("the passwords for registries in %s cannot be read: %w", file, err)
	}
	return c.loginTo(ctx, host)
}

// maxPassword bounds a password, or a token in its place, in bytes.
const maxPassword = 64 << 10

// loginTo is how one signs in to a registry by the file, or by the program that it names.
func (c *dockerConfig) loginTo(ctx context.Context, host string) (login, error) {
	keys := []string{host}
	if host == "docker.io" {
		keys = []string{"https://index.docker.io/v1/", "index.docker.io", host}
	}
	for _, key := range keys {
		if helper := c.CredHelpers[key]; helper != "" {
			return askHelper(ctx, helper, key)
		}
	}
	for _, key := range keys {
		for at, a := range c.Auths {
			if l, err := a.login(); at == key || hostOf(at) == key {
				if err != nil {
					return login{}, fmt.Errorf("the password for %s in Docker's config.json cannot be read: %w",
						host, err)
				}
				if l != (login{}) {
					return l, nil
				}
			}
		}
	}
	if c.CredsStore != "" {
		return askHelper(ctx, c.CredsStore, keys[0])
	}
	return login{}, nil
}

// hostOf is the host of a key of the file, which may have a scheme and a path.
func hostOf(key string) string {
	if _, rest, found := strings.Cut(key, "://"); found {
		key = rest
	}
	host, _, _ := strings.Cut(key, "/")
	return host
}

func (a dockerAuth) login() (login, error) {
	l := login{user: a.Username, password: a.Password, refresh: a.IdentityToken, bearer: a.RegistryToken}
	if a.Auth == "" {
		return l, nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimRight(a.Auth, "\x00"))
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return login{}, errors.New("it is no user and password in base64")
	}
	l.user, l.password = user, strings.Trim(password, "\x00")
	return l, nil
}

// askHelper asks a program that keeps passwords, docker-credential-NAME.
func askHelper(ctx context.Context, helper, key string) (login, error) {
	c := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	c.Stdin = strings.NewReader(key)
	out, err := c.Output()
	failed := (*exec.ExitError)(nil)
	if errors.As(err, &failed) && bytes.Contains(out, []byte("credentials not found")) {
		return login{}, nil
	}
	if err != nil {
		return login{}, fmt.Errorf("docker-credential-%s, which keeps the password for %s by ~/.docker/config.json, "+
			"does not give it: %w; or give --user and --password-stdin", helper, key, err)
	}
	var said struct{ Username, Secret string }
	if err := json.Unmarshal(out, &said); err != nil {
		return login{}, fmt.Errorf("docker-credential-%s does not answer in JSON", helper)
	}
	if said.Username == "<token>" {
		return login{refresh: said.Secret}, nil
	}
	return login{user: said.Username, password: said.Secret}, nil
}
