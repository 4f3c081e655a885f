package document

import "strings"

// value reads the value at the position, which is its first character.
func (p *parser) value(at place) *Node {
	p.properties()
	if p.bad {
		return nil
	}
	if p.atLineEnd() {
		return p.below(at)
	}
	start := p.off
	switch c := p.peek(); {
	case c == '-' && isBlank(p.at(p.off+1)):
		if at.inline {
			p.fail(start, "a list cannot begin on this line; put its first \"- \" on the next line")
			return nil
		}
		return p.list(at)
	case c == '?' && isBlank(p.at(p.off+1)):
		p.fail(start, "complex keys (\"? \") are not supported; write \"key: value\"")
		return nil
	case c == '|' || c == '>':
		return p.blockScalar(at)
	case c == '[' || c == '{':
		return p.flowValue(at)
	case c == '*':
		return p.alias(at)
	}
	line := p.line
	text, quoted := p.scalar(at.indent, false)
	if p.bad {
		return nil
	}
	if p.line == line && p.atColon() {
		if at.inline {
			p.fail(p.off, "a second \": \" on this line; put the value in quotes, or the inner map on the next line")
			return nil
		}
		return p.blockMap(at, start, text)
	}
	return p.scalarNode(at, start, text, quoted)
}

// below reads a value whose line ended before it began: it stands on a later
// line with more indentation, or is null.
func (p *parser) below(at place) *Node {
	start := p.off
	line, column := p.position(start)
	p.skipBlank()
	if p.end() || p.atMarker("---") || p.atMarker("...") || p.column0() < at.indent || p.column0() == at.indent && !p.listUnderKey(at) {
		p.count(start)
		return &Node{Line: line, Column: column, file: p.file, parent: at.parent, key: at.key, index: at.index}
	}
	at.inline = false
	return p.value(at)
}

// listUnderKey reports whether a list begins that is the value of a map's key
// and has the indentation of the key itself.
func (p *parser) listUnderKey(at place) bool {
	return at.parent != nil && at.parent.Kind == Map && p.peek() == '-' && isBlank(p.at(p.off+1))
}

// properties refuses anchors and tags and steps over them.
func (p *parser) properties() {
	for !p.end() {
		c := p.peek()
		if c != '&' && c != '!' {
			return
		}
		if c == '&' {
			p.report(p.off, "anchors (&name) are not supported; write the value out, or put text that begins with & in quotes")
		} else {
			p.report(p.off, "tags (!name) are not supported; remove it, or put text that begins with ! in quotes")
		}
		for !isBlank(p.peek()) && !strings.ContainsRune(",[]{}", rune(p.peek())) {
			p.off++
		}
		p.spaces()
	}
}

// alias refuses an alias and stands for it with a null.
func (p *parser) alias(at place) *Node {
	p.report(p.off, "aliases (*name) are not supported; write the value out, or put text that begins with * in quotes")
	n := p.node(Null, p.off, at)
	for !isBlank(p.peek()) && !strings.ContainsRune(",[]{}", rune(p.peek())) {
		p.off++
	}
	return n
}

// list reads a block list. Every item begins with "-" in the column of the first.
func (p *parser) list(at place) *Node {
	indent := p.column0()
	n := p.node(List, p.off, at)
	p.enter(p.off)
	for !p.bad {
		p.off++ // the dash
		if p.peek() == '\t' {
			p.fail(p.off, "a tab behind \"-\"; use a space")
			break
		}
		p.spaces()
		n.Items = append(n.Items, p.value(place{parent: n, index: len(n.Items), indent: indent}))
		if !p.nextLine(indent) || p.peek() != '-' || !isBlank(p.at(p.off+1)) {
			break
		}
	}
	p.depth--
	return n
}

// nextLine goes to the next entry of a block map or list and reports whether
// there is one in its column. Text further right is a mistake.
func (p *parser) nextLine(indent int) bool {
	if p.bad {
		return false
	}
	crossed := p.skipBlank() || p.column0() == 0 || strings.TrimLeft(p.src[p.lineStart:p.off], " ") == ""
	switch {
	case p.end() || p.atMarker("---") || p.atMarker("..."):
		return false
	case !crossed:
		p.fail(p.off, "unexpected text behind a value; put the value in quotes, or this on its own line")
		return false
	case p.column0() > indent:
		p.fail(p.off, "this line is indented too far; it must begin in column "+itoa(indent+1)+" to belong to what is above")
		return false
	}
	return p.column0() == indent
}

// blockMap reads a block map whose first key was just read; the position is at
// its colon.
func (p *parser) blockMap(at place, start int, key string) *Node {
	indent := start - p.lineStart
	n := p.node(Map, start, at)
	p.enter(start)
	keys := keySet{}
	for !p.bad {
		p.entry(n, &keys, start, key, indent)
		if !p.nextLine(indent) {
			break
		}
		start = p.off
		key = p.blockKey()
	}
	p.depth--
	return n
}

// blockKey reads the next key of a block map up to its colon.
func (p *parser) blockKey() string {
	start, line := p.off, p.line
	switch c := p.peek(); {
	case c == '-' && isBlank(p.at(p.off+1)):
		p.fail(start, "a list item where a key is expected; check the indentation")
		return ""
	case c == '?' && isBlank(p.at(p.off+1)):
		p.fail(start, "complex keys (\"? \") are not supported; write \"key: value\"")
		return ""
	case c == '[' || c == '{':
		p.fail(start, "a list or map cannot be a key; put it in quotes")
		return ""
	case c == '*' || c == '&' || c == '!':
		p.fail(start, "anchors, aliases and tags are not supported; put the key in quotes")
		return ""
	}
	key, _ := p.scalar(maxIndent, false)
	if !p.bad && (p.line != line || !p.atColon()) {
		p.line, p.lineStart = line, strings.LastIndexByte(p.src[:start], '\n')+1
		p.fail(start, "expected \"key: value\" here, found "+Quote(firstLine(p.src[start:p.off]))+"; a colon and a space must follow the key")
	}
	return key
}

// maxIndent makes a plain scalar end with its line.
const maxIndent = 1 << 30

// atColon steps over spaces and reports whether a key's colon follows.
func (p *parser) atColon() bool {
	p.spaces()
	return p.peek() == ':' && isBlank(p.at(p.off+1))
}

// entry reads one value behind its key; the position is at the colon.
func (p *parser) entry(n *Node, keys *keySet, start int, key string, indent int) {
	keep := p.checkKey(n, keys, start, key)
	line, column := p.position(start)
	p.count(start)
	p.off++ // the colon
	p.spaces()
	v := p.value(place{parent: n, key: key, indent: indent, inline: true})
	if keep && v != nil {
		n.Fields = append(n.Fields, Field{Key: key, Line: line, Column: column, Value: v})
	}
}

// checkKey refuses keys that are too long, double or have a special meaning;
// false means that the entry is not kept.
func (p *parser) checkKey(n *Node, keys *keySet, start int, key string) bool {
	switch {
	case len(key) > maxKey:
		p.fail(start, "the key "+Quote(key)+" is too long: at most "+itoa(maxKey)+" bytes are allowed")
	case key == "<<":
		p.report(start, "merge keys (<<) are not supported; write the keys out")
	default:
		if at := keys.add(n, key); at >= 0 {
			f := n.Fields[at]
			p.report(start, "the key "+Quote(key)+" is already given at line "+itoa(f.Line)+", column "+itoa(f.Column)+"; keep one of them")
			return false
		}
		return true
	}
	return false
}

// keySet finds double keys: by a walk in a small map, by a table in a large one.
type keySet struct{ table map[string]int }

// add returns the place of an earlier field with the key, or -1.
func (k *keySet) add(n *Node, key string) int {
	if len(n.Fields) < 16 {
		for i := range n.Fields {
			if n.Fields[i].Key == key {
				return i
			}
		}
		return -1
	}
	if k.table == nil {
		k.table = make(map[string]int)
	}
	for i := len(k.table); i < len(n.Fields); i++ {
		k.table[n.Fields[i].Key] = i
	}
	if at, ok := k.table[key]; ok {
		return at
	}
	return -1
}
