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

// TicketLife is how long a ticket is valid. MaxTickets is how many a browser keeps, of
// several users.
const (
	TicketLife = 400 * 24 * time.Hour // as long as browsers keep a cookie
	MaxTickets = 4
	ticketEnd  = "~" // between two tickets
)

// Ticket makes a ticket, which a browser or a command keeps of a sign-in so that its next one
// does not wait for strangers. It proves that its holder knew the password, and opens no
// session. It is signed with the password's hash, so it ends with the password, and the
// server stores nothing. A user without a password gets "".
func (d *Directory) Ticket(name string) string {
	u, err := d.User(name)
	if err != nil || u.Hash == "" {
		return ""
	}
	id := rand.Text()[:20] + "." + strconv.FormatInt(d.time().Unix(), 36)
	return id + "." + sign(&u, id)
}

// KeepTicket replaces the user's ticket among those of a browser by a new one.
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
	h := hmac.New(sha256.New, []byte(u.Hash)) // it has its own salt, and is never given out
	_, _ = io.WriteString(h, "sign-in ticket\x00"+u.Name+"\x00"+id)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// holder returns the device of a user's ticket; false where none of the tickets is valid.
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
