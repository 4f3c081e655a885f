package document

// flowValue reads a flow map or list and what may follow it on its line.
func (p *parser) flowValue(at place) *Node {
	n := p.flow(at)
	if p.bad {
		return nil
	}
	if p.keyFollows() {
		p.fail(p.off, "a list or map cannot be a key; put it in quotes")
	}
	return n
}

// flow reads one value in flow style.
func (p *parser) flow(at place) *Node {
	p.properties()
	p.flowBlank()
	if p.bad {
		return nil
	}
	switch p.peek() {
	case '[':
		return p.flowList(at)
	case '{':
		return p.flowMap(at)
	case '*':
		return p.alias(at)
	}
	start := p.off
	text, quoted := p.scalar(-1, true)
	if p.bad {
		return nil
	}
	return p.scalarNode(at, start, text, quoted)
}

// flowBlank goes to the next content inside brackets.
func (p *parser) flowBlank() {
	for !p.end() {
		p.spaces()
		if !p.atLineEnd() {
			break
		}
		for !p.end() && p.peek() != '\n' {
			p.off++
		}
		if !p.end() {
			p.newline()
		}
	}
	if p.atMarker("---") || p.atMarker("...") {
		p.fail(p.off, "the document ends inside brackets; a closing ] or } is missing")
	}
}

func (p *parser) flowList(at place) *Node {
	open := p.mark()
	n := p.node(List, p.off, at)
	p.enter(p.off)
	p.off++
	for p.flowBlank(); !p.end() && p.peek() != ']'; {
		n.Items = append(n.Items, p.flow(place{parent: n, index: len(n.Items)}))
		if !p.separator(']') {
			break
		}
	}
	p.close(open, ']')
	return n
}

func (p *parser) flowMap(at place) *Node {
	open := p.mark()
	n := p.node(Map, p.off, at)
	p.enter(p.off)
	p.off++
	keys := keySet{}
	for p.flowBlank(); !p.end() && p.peek() != '}'; {
		p.flowEntry(n, &keys)
		if !p.separator('}') {
			break
		}
	}
	p.close(open, '}')
	return n
}

// flowEntry reads "key: value" inside braces.
func (p *parser) flowEntry(n *Node, keys *keySet) {
	if c := p.peek(); c == '[' || c == '{' || c == '&' || c == '*' || c == '!' || c == '?' && isBlank(p.at(p.off+1)) {
		p.fail(p.off, "a key must be plain or quoted text")
		return
	}
	start, lineNumber := p.off, p.line
	key, quoted := p.scalar(-1, true)
	if p.bad {
		return
	}
	if p.line != lineNumber {
		p.fail(p.off, "a key must be on one line; a comma or a closing } may be missing")
		return
	}
	keep := p.checkKey(n, keys, start, key)
	line, column := p.position(start)
	p.count(start)
	p.flowBlank()
	if next := p.at(p.off + 1); p.peek() != ':' || !(quoted || isBlank(next) || isFlow(next)) {
		p.fail(p.off, "the key "+Quote(key)+" has no value; write \"key: value\" with a space behind the colon")
		return
	}
	p.off++
	p.flowBlank()
	var v *Node
	at := place{parent: n, key: key}
	if c := p.peek(); c == ',' || c == '}' {
		v = p.node(Null, p.off, at)
	} else {
		v = p.flow(at)
	}
	if keep && v != nil {
		n.Fields = append(n.Fields, Field{Key: key, Line: line, Column: column, Value: v})
	}
}

// separator steps over a comma; false when the collection ends here.
func (p *parser) separator(closing byte) bool {
	p.flowBlank()
	if p.end() || p.peek() == closing {
		return false
	}
	switch p.peek() {
	case ',':
		p.off++
		p.flowBlank()
		return true
	case ':':
		p.fail(p.off, "a \"key: value\" in a list needs braces: [{key: value}]")
	default:
		p.fail(p.off, "expected a comma or "+string(rune(closing))+" here")
	}
	return false
}

// mark remembers a place to report later.
type mark struct{ line, lineStart, off int }

func (p *parser) mark() mark { return mark{p.line, p.lineStart, p.off} }

// close steps over the closing bracket of a collection.
func (p *parser) close(open mark, closing byte) {
	p.depth--
	if p.bad {
		return
	}
	if p.peek() != closing {
		p.line, p.lineStart = open.line, open.lineStart
		p.fail(open.off, "the closing "+string(rune(closing))+" of this is missing")
		return
	}
	p.off++
}
