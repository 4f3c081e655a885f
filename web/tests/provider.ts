import { createSign, generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

const base64 = (v: object) => Buffer.from(JSON.stringify(v)).toString('base64url');

// Provider is an identity provider that lets in whoever comes, as one user: what a browser and the server ask of one, no more.
export class Provider {
  private readonly keys = generateKeyPairSync('rsa', { modulusLength: 2048 });
  private readonly codes = new Map<string, { nonce: string; client: string }>();
  private server: Server | undefined;
  issuer = '';

  private readonly user: string;

  constructor(user: string) {
    this.user = user;
  }

  async start(): Promise<void> {
    this.server = createServer((q, r) => {
      const at = new URL(q.url ?? '/', this.issuer);
      if (at.pathname === '/authorize') {
        const code = `code${this.codes.size}`;
        this.codes.set(code, { nonce: at.searchParams.get('nonce') ?? '', client: at.searchParams.get('client_id') ?? '' });
        const back = new URL(at.searchParams.get('redirect_uri') ?? '');
        back.searchParams.set('code', code);
        back.searchParams.set('state', at.searchParams.get('state') ?? '');
        r.writeHead(302, { Location: back.toString() }).end();
        return;
      }
      let body = '';
      q.on('data', (d: Buffer) => (body += d.toString()));
      q.on('end', () => {
        const answer = this.answer(at.pathname, new URLSearchParams(body));
        r.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer ?? {}));
      });
    });
    await new Promise<void>((resolve) => this.server?.listen(0, '127.0.0.1', resolve));
    this.issuer = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  private answer(path: string, form: URLSearchParams): object | undefined {
    switch (path) {
      case '/.well-known/openid-configuration':
        return {
          issuer: this.issuer, authorization_endpoint: `${this.issuer}/authorize`, token_endpoint: `${this.issuer}/token`, jwks_uri: `${this.issuer}/keys`,
          response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'],
          code_challenge_methods_supported: ['S256'],
        };
      case '/keys':
        return { keys: [{ ...this.keys.publicKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'one' }] };
      case '/token':
        return { access_token: 'none', token_type: 'Bearer', id_token: this.token(this.codes.get(form.get('code') ?? '')) };
    }
    return undefined;
  }

  private token(of: { nonce: string; client: string } | undefined): string {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: this.issuer, sub: 'subject-1', aud: of?.client, nonce: of?.nonce, iat: now, exp: now + 300, preferred_username: this.user, groups: [] };
    const text = `${base64({ alg: 'RS256', kid: 'one', typ: 'JWT' })}.${base64(claims)}`;
    return `${text}.${createSign('RSA-SHA256').update(text).sign(this.keys.privateKey, 'base64url')}`;
  }

  stop(): void {
    this.server?.close();
  }
}
