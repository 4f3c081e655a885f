package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/combsched/comb/internal/core/cell"
)

// Room is how many leaves of one SKU a gang may use.
type Room struct {
	Carry
	Free  int32 `json:"free"`  // leaves that are free to it now
	Total int32 `json:"total"` // leaves that it may ever use
}

// JoinAnd is "a, b and c".
func JoinAnd(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}

// roomText joins a text for each SKU, with the SKU's name if there are several.
func roomText(rooms []Room, text func(*Room) string) string {
	if len(rooms) == 0 {
		return "nothing"
	}
	var out []string
	for i := range rooms {
		t := text(&rooms[i])
		if len(rooms) > 1 {
			t += " (" + string(rooms[i].SKU) + ")"
		}
		out = append(out, t)
	}
	return JoinAnd(out)
}

// TotalText is the total of each SKU: "8 GPUs".
func TotalText(rooms []Room) string {
	return roomText(rooms, func(r *Room) string { return r.Amount(r.Total) })
}

// FreeText is how much of each SKU is free: "3 of 8 GPUs".
func FreeText(rooms []Room) string {
	return roomText(rooms, func(r *Room) string { return r.Number(r.Free) + " of " + r.Amount(r.Total) })
}

// AddRoom adds leaves to a list by SKU, in order of name.
func AddRoom(rooms []Room, c Carry, free, total int32) []Room {
	i, found := slices.BinarySearchFunc(rooms, c.SKU, func(r Room,
		n cell.TypeName) int {
		return cmp.Compare(r.SKU, n)
	})
	if !found {
		rooms = slices.Insert(rooms, i, Room{Carry: c})
	}
	rooms[i].Free += free
	rooms[i].Total += total
	return rooms
}

// SumRooms counts the leaves of all SKUs.
func SumRooms(rooms []Room) (free, total int32) {
	for i := range rooms {
		free += rooms[i].Free
		total += rooms[i].Total
	}
	return free, total
}

// IsFree is FreeText as a clause: "3 of 8 GPUs are free".
func IsFree(rooms []Room) string {
	text, verb := FreeText(rooms), "are"
	if len(rooms) == 1 && (strings.HasPrefix(text, "1 ") || strings.Contains(text, " of 1 ")) {
		verb = "is"
	}
	return text + " " + verb + " free"
}

// Plural counts things: "1 cell", "2 cells".
func Plural(n int32, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
