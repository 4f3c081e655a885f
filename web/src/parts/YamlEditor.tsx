import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { basicSetup } from 'codemirror';
import { useEffect, useRef } from 'react';
import type { FieldError } from '../api/wire';
import { Echoes } from './echoes';
import { nonce } from '../theme/nonce';
import css from './parts.module.css';

interface Props {
  text: string;
  label: string;
  marks: FieldError[]; // with line and column, from 1
  onChange: (text: string) => void;
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--running)' },
  { tag: [tags.string, tags.content], color: 'var(--ink)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--suspended)' },
  { tag: [tags.comment, tags.meta, tags.separator, tags.punctuation], color: 'var(--muted)' },
]);

const look = EditorView.theme({
  '&': { fontSize: '13px', color: 'var(--ink)', backgroundColor: 'var(--card)', minHeight: '320px', maxHeight: '72vh' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px' },
  '.cm-scroller:focus-visible': { outline: '2px solid var(--accent)', outlineOffset: '-2px' }, // outside of it nothing is seen
  '.cm-gutters': { backgroundColor: 'var(--card)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent)' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--ink)', border: '1px solid var(--line)' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--failed)' },
});

// change is the smallest one that makes the editor's text another, so that cursor and scroll stay.
function change(from: string, to: string) {
  let head = 0;
  while (head < from.length && head < to.length && from[head] === to[head]) head++;
  let tail = 0;
  while (tail < from.length - head && tail < to.length - head && from[from.length - 1 - tail] === to[to.length - 1 - tail]) tail++;
  return { from: head, to: from.length - tail, insert: to.slice(head, to.length - tail) };
}

function diagnostics(state: EditorState, marks: FieldError[]): Diagnostic[] {
  return marks
    .filter((m) => m.line)
    .map((m) => {
      const line = state.doc.line(Math.min(Math.max(m.line ?? 1, 1), state.doc.lines));
      const from = Math.min(line.from + Math.max((m.column ?? 1) - 1, 0), line.to);
      return { from, to: line.to, severity: 'error', message: m.detail };
    });
}

// YamlEditor is a text of its own: what comes from outside is brought in as a change, what is typed is told.
export function YamlEditor({ text, label, marks, onChange }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const told = useRef(onChange);
  const echoes = useRef(new Echoes());
  const first = useRef({ text, label });
  useEffect(() => {
    told.current = onChange;
  }, [onChange]);
  useEffect(() => {
    if (place.current === null) return;
    const editor = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: first.current.text,
        extensions: [
          basicSetup, yaml(), syntaxHighlighting(colours), look, lintGutter(), EditorState.tabSize.of(2), EditorView.cspNonce.of(nonce()),
          EditorView.contentAttributes.of({ 'aria-label': first.current.label }),
          EditorView.updateListener.of((u) => {
            if (!u.docChanged) return;
            const typed = u.state.doc.toString();
            echoes.current.tell(typed);
            told.current(typed);
          }),
        ],
      }),
    });
    editor.scrollDOM.tabIndex = 0;
    view.current = editor;
    return () => editor.destroy();
  }, []);
  useEffect(() => {
    const editor = view.current;
    const now = editor?.state.doc.toString();
    if (!editor || now === undefined) return;
    if (!echoes.current.hear(text, now) && now !== text) editor.dispatch({ changes: change(now, text) });
  }, [text]);
  useEffect(() => {
    const editor = view.current;
    if (editor) editor.dispatch(setDiagnostics(editor.state, diagnostics(editor.state, marks)));
  }, [marks]);
  return <div ref={place} className={css.editor} />;
}
