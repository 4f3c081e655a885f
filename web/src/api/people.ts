import { queryOptions } from '@tanstack/react-query';
import { call, Failure, part, send } from './client';
import type { GroupList, Me, NewToken, NewUser, SignedIn, TokenList, TokenMade, UserChange, UserList, WaysIn } from './wire';

// meQuery is who is signed in; null is nobody. Who was signed in stays known when the session ends, so that the page does, too.
export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: async ({ signal, client }): Promise<Me | null> => {
    try {
      return await call<Me>('GET', '/me', { signal });
    } catch (e) {
      if (e instanceof Failure && e.status === 401 && !client.getQueryData(['me'])) return null;
      throw e;
    }
  },
});

// waysQuery is how one signs in here; it needs no session.
export const waysQuery = queryOptions({ queryKey: ['ways'], queryFn: ({ signal }) => call<WaysIn>('GET', '/sign-in', { signal }) });

export const usersQuery = queryOptions({ queryKey: ['users'], queryFn: ({ signal }) => call<UserList>('GET', '/users', { signal }) });
export const groupsQuery = queryOptions({ queryKey: ['groups'], queryFn: ({ signal }) => call<GroupList>('GET', '/groups', { signal }) });
export const tokensQuery = queryOptions({ queryKey: ['tokens'], queryFn: ({ signal }) => call<TokenList>('GET', '/tokens', { signal }) });

export function signIn(user: string, password: string): Promise<SignedIn> {
  return call('POST', '/sessions', { body: { user, password, cookie: true } });
}

// setUp makes the first administrator with the code that the server printed, and signs it in.
export function setUp(code: string, user: string, password: string): Promise<SignedIn> {
  return call('POST', '/setup', { body: { code, user, password, cookie: true } });
}

export function signOut(): Promise<void> {
  return send('DELETE', '/sessions');
}

export function createUsers(users: NewUser[]): Promise<UserList> {
  return call('POST', '/users', { body: { users } });
}

export function updateUser(name: string, change: UserChange): Promise<unknown> {
  return call('PATCH', `/users/${part(name)}`, { body: change });
}

export function deleteUser(name: string): Promise<void> {
  return send('DELETE', `/users/${part(name)}`);
}

export function createGroup(name: string, members: string[]): Promise<unknown> {
  return call('POST', '/groups', { body: { name, members } });
}

export function deleteGroup(name: string): Promise<void> {
  return send('DELETE', `/groups/${part(name)}`);
}

export function createToken(token: NewToken): Promise<TokenMade> {
  return call('POST', '/tokens', { body: token });
}

export function revokeToken(id: string): Promise<void> {
  return send('DELETE', `/tokens/${part(id)}`);
}
