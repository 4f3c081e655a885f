package people

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/combsched/comb/internal/core/access"
)

// TicketLife is how long a ticket is good for. MaxTickets is how many a browser keeps, of several
// users.
const (
	TicketLife = 400 * 24 * time.Hour // as long as browsers keep a cookie
	MaxTickets = 4
	ticketEnd  = "~" // between two tickets
)

// Ticket makes what a browser or a command keeps of a sign-in, so that its next one waits for no
// stranger. It proves that its holder knew the password, and opens no session: it is signed with
// the password's hash, so it ends with the password, and nothing of it is kept here. A user without
// a password has none.
func (d *Directory) Ticket(name string) string {
	u, err := d.User(name)
	if err != nil || u.Hash == "" {
		return ""
	}
	id := rand.Text()[:20] + "." + strconv.FormatInt(d.time().Unix(), 36)
	return id + "." + sign(&u, id)
}

// KeepTicket puts the new ticket of a user into those that a browser has, in place of the user's
// old one.
func (d *Directory) KeepTicket(kept, name string) string {
	fresh := d.Ticket(name)
	if fresh == "" {
		return kept
	}
	u, _ := d.User(name)
	all := []string{}
	for one := range strings.SplitSeq(kept, ticketEnd) {
		if _, own := d.holder(&u, one); !own && one != "" {
			all = append(all, one)
		}
	}
	return strings.Join(append(all[max(0, len(all)-MaxTickets+1):], fresh), ticketEnd)
}

func sign(u *access.User, id string) string {
	h := hmac.New(sha256.New, []byte(u.Hash)) // which has a salt of its own, and is given to no one
	_, _ = io.WriteString(h, "sign-in ticket\x00"+u.Name+"\x00"+id)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// holder returns which device holds a ticket of a user; false where none of them is one.
func (d *Directory) holder(u *access.User, tickets string) (id string, ok bool) {
	for one := range strings.SplitSeq(tickets, ticketEnd) {
		i := strings.LastIndexByte(one, '.')
		if i < 0 || len(one) > 200 {
			continue
		}
		id = one[:i]
		_, made, _ := strings.Cut(id, ".")
		at, err := strconv.ParseInt(made, 36, 64)
		young := err == nil && d.time().Sub(time.Unix(at, 0)) < TicketLife
		if young && hmac.Equal([]byte(sign(u, id)), []byte(one[i+1:])) {
			return id, true
		}
	}
	return "", false
}
