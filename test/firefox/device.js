// Functions that the test runs in a browser. The test sends this file with every call and invokes one function.

const { Weave } = ChromeUtils.importESModule("resource://services-sync/main.sys.mjs");
const { Status } = ChromeUtils.importESModule("resource://services-sync/status.sys.mjs");
const { SyncedTabs } = ChromeUtils.importESModule("resource://services-sync/SyncedTabs.sys.mjs");
const { getFxAccountsSingleton } = ChromeUtils.importESModule("resource://gre/modules/FxAccounts.sys.mjs");
const { FxAccountsConfig } = ChromeUtils.importESModule("resource://gre/modules/FxAccountsConfig.sys.mjs");
const { PlacesUtils } = ChromeUtils.importESModule("resource://gre/modules/PlacesUtils.sys.mjs");

// notified resolves when the browser notifies observers of topic.
function notified(topic) {
  return new Promise(resolve => {
    const observer = () => {
      Services.obs.removeObserver(observer, topic);
      resolve();
    };
    Services.obs.addObserver(observer, topic);
  });
}

// ---- the account ----

// signInPage returns the address of the page that the browser's menu opens to sign in.
async function signInPage() {
  return FxAccountsConfig.promiseConnectAccountURI("test");
}

async function signIn(credentials) {
  await Weave.Service.promiseInitialized;
  // Disables automatic syncs, after changes and on a timer.
  Weave.Service.scheduler.scheduleNextSync = () => {};
  await getFxAccountsSingleton()._internal.setSignedInUser(credentials);
  await Weave.Service.configure();
}

// sync resolves to a sync's outcome once its log is on disk.
async function sync() {
  if (Weave.Service.locked) {
    throw new Error("a sync is running already");
  }
  const logged = notified("weave:service:reset-file-log");
  await Weave.Service.sync({ why: "user" });
  await logged;
  return { service: Status.service, login: Status.login, sync: Status.sync, engines: Status.engines };
}

// forgetToken makes the next sync request a new token, as after an hour.
function forgetToken() {
  Weave.Service.identity.resetCredentials();
}

// endBackoff allows the next sync, as after Retry-After.
function endBackoff() {
  Status.resetBackoff();
}

// ---- the server, as the browser sees it ----

// endpoint returns the storage address from the tokenserver.
function endpoint() {
  return Weave.Service.clusterURL;
}

async function counts() {
  const response = await Weave.Service.resource(endpoint() + "info/collection_counts").get();
  return response.obj;
}

async function wipeServer() {
  await Weave.Service.wipeServer();
}

// ---- bookmarks ----

async function addBookmark(title, url) {
  const { guid } = await PlacesUtils.bookmarks.insert({
    parentGuid: PlacesUtils.bookmarks.toolbarGuid, title, url,
  });
  return guid;
}

// addFolder creates a folder with n bookmarks in one step, like an import.
async function addFolder(title, url, n) {
  const children = Array.from({ length: n }, (_, i) => ({ title: `${title} ${i}`, url: `${url}/${i}` }));
  const [folder] = await PlacesUtils.bookmarks.insertTree({
    guid: PlacesUtils.bookmarks.toolbarGuid,
    children: [{ title, type: PlacesUtils.bookmarks.TYPE_FOLDER, children }],
  });
  return folder.guid;
}

async function renameBookmark(guid, title) {
  await PlacesUtils.bookmarks.update({ guid, title });
}

async function removeBookmark(guid) {
  await PlacesUtils.bookmarks.remove(guid);
}

// bookmark returns a bookmark's title, or null.
async function bookmark(guid) {
  const found = await PlacesUtils.bookmarks.fetch(guid);
  return found && found.title;
}

// folder returns the titles of a folder's bookmarks in order.
async function folder(guid) {
  const tree = await PlacesUtils.promiseBookmarksTree(guid);
  return (tree?.children ?? []).map(child => child.title);
}

// wipeBookmarks deletes bookmarks only in this browser; it sends no deletes to the server.
async function wipeBookmarks() {
  await Weave.Service.wipeClient(["bookmarks"]);
}

// ---- passwords ----

async function addLogin(origin, username, password) {
  const login = Cc["@mozilla.org/login-manager/loginInfo;1"].createInstance(Ci.nsILoginInfo);
  login.init(origin, origin, null, username, password, "user", "pass");
  await Services.logins.addLoginAsync(login);
}

async function logins(origin) {
  const found = await Services.logins.searchLoginsAsync({ origin });
  return found.map(({ username, password }) => ({ username, password }));
}

// ---- history and tabs ----

// visit opens url in a new tab and resolves when the visit is in the history.
async function visit(url) {
  const recorded = new Promise(resolve => {
    const listener = events => {
      if (events.some(event => event.url == url)) {
        PlacesObservers.removeListener(["page-visited"], listener);
        resolve();
      }
    };
    PlacesObservers.addListener(["page-visited"], listener);
  });
  const { gBrowser } = Services.wm.getMostRecentWindow("navigator:browser");
  gBrowser.addTab(url, { triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal() });
  await recorded;
}

// visits returns the number of visits to url in all browsers.
async function visits(url) {
  const page = await PlacesUtils.history.fetch(url, { includeVisits: true });
  return page ? page.visits.length : 0;
}

// siblingTabs returns the open URLs in the account's other browsers.
async function siblingTabs() {
  const clients = await SyncedTabs.getTabClients();
  return clients.flatMap(client => client.tabs.map(tab => tab.url));
}

// ---- settings ----

function setIntPref(name, value) {
  Services.prefs.setIntPref(name, value);
}

function setStringPref(name, value) {
  Services.prefs.setStringPref(name, value);
}

// lockPref locks a preference, as an administrator's AutoConfig file does.
function lockPref(name, value) {
  Services.prefs.getDefaultBranch("").setStringPref(name, value);
  Services.prefs.lockPref(name);
}

function pref(name) {
  return Services.prefs.getStringPref(name);
}

function isLocked(name) {
  return Services.prefs.prefIsLocked(name);
}

// usualLogs resets sync logging to the defaults.
function usualLogs() {
  for (const name of ["services.sync.log.logger", "services.sync.log.logger.engine"]) {
    Services.prefs.clearUserPref(name);
  }
}

// useServer makes the next sync use another tokenserver, as after a new sign-in.
function useServer(url) {
  Services.prefs.setStringPref("identity.sync.tokenserver.uri", url);
  Weave.Service.identity.resetCredentials();
  Weave.Service.clusterURL = null;
  Status.resetBackoff();
}

// lastLog returns the newest file in about:sync-log.
async function lastLog() {
  const files = await IOUtils.getChildren(PathUtils.join(PathUtils.profileDir, "weave", "logs"));
  return IOUtils.readUTF8(files.sort((a, b) => a.match(/\d+/g).pop() - b.match(/\d+/g).pop()).pop());
}

// addToToolbar adds bookmarks, as [title, url], to the toolbar.
async function addToToolbar(all) {
  for (const [title, url] of all) {
    await PlacesUtils.bookmarks.insert({ parentGuid: PlacesUtils.bookmarks.toolbarGuid, title, url });
  }
}

// picture opens an address and returns the window as a PNG (base64), with the bookmarks toolbar and without the signs of remote
// control.
async function picture(address, width, height) {
  const window = Services.wm.getMostRecentWindow("navigator:browser"), tab = window.gBrowser.selectedBrowser;
  window.resizeTo(width, height);
  window.document.documentElement.removeAttribute("remotecontrol");
  window.setToolbarVisibility(window.document.getElementById("PersonalToolbar"), true);
  tab.fixupAndLoadURIString(address, { triggeringPrincipal: Services.scriptSecurityManager.getSystemPrincipal() });
  while (tab.currentURI.spec !== address || window.gBrowser.selectedTab.hasAttribute("busy")) await new Promise(resolve => window.setTimeout(resolve, 50));
  await new Promise(resolve => window.requestAnimationFrame(() => window.requestAnimationFrame(resolve)));
  const bitmap = await window.browsingContext.currentWindowGlobal.drawSnapshot(new window.DOMRect(0, 0, window.innerWidth, window.innerHeight), 1, "rgb(255,255,255)");
  const canvas = window.document.createElementNS("http://www.w3.org/1999/xhtml", "canvas");
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  return canvas.toDataURL().split(",")[1];
}
