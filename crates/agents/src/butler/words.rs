//! The words that the butler knows: data, and nothing else. All of them are in small letters, without
//! apostrophes.

/// Verbs that say little of what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Go somewhere, or look at something.
    Open,
    /// Operate something.
    Press,
    /// Give something a value.
    Set,
    /// Give something its other value.
    Switch,
    /// Put something in force.
    On,
    /// Put it out of force.
    Off,
}

/// What those verbs sound like.
pub(super) const VERBS: &[(Verb, &[&str])] = &[
    (
        Verb::Open,
        &[
            "open", "go", "goto", "show", "navigate", "take", "bring", "visit", "view", "display", "see",
            "jump", "head", "move", "get", "list",
        ],
    ),
    (Verb::Press, &["press", "click", "push", "tap", "hit", "do", "run"]),
    (
        Verb::Set,
        &[
            "set", "change", "make", "fill", "type", "enter", "write", "update", "edit", "modify", "adjust",
            "choose", "select", "pick", "use", "input",
        ],
    ),
    (Verb::Switch, &["switch", "turn", "toggle", "flip"]),
    (Verb::On, &["enable", "activate", "check", "tick"]),
    (Verb::Off, &["disable", "deactivate", "uncheck", "untick"]),
];

/// Verbs that say what is to be done: what has one of these is not done for another one.
pub(super) const DEEDS: &[&[&str]] = &[
    REMOVAL,
    &["add", "put", "insert", "throw"],
    &["buy", "pay", "checkout"],
    &["submit", "send", "place", "post"],
    &["save", "store"],
    &["search", "find", "lookup", "look"],
    &["close", "dismiss", "hide", "shut"],
    &["logout", "signout"],
    &["login", "signin"],
    &["reset", "restore", "revert"],
    &["sort", "arrange"],
    &["refresh", "reload"],
    &["share"],
    &["download", "export"],
    &["upload", "import", "attach"],
    &["print"],
    &["play", "resume"],
    &["pause", "hold", "stop"],
    &["book", "reserve"],
    &["subscribe"],
    &["unsubscribe"],
];

/// Verbs that take something away. What does so is never done unless one of them was said.
pub(super) const REMOVAL: &[&str] =
    &["cancel", "delete", "remove", "clear", "erase", "drop", "discard", "empty"];

/// Names of the same thing.
pub(super) const THINGS: &[&[&str]] = &[
    &["cart", "basket", "bag", "trolley"],
    &["settings", "preferences", "options", "configuration"],
    &["help", "support", "assistance", "faq"],
    &["home", "homepage", "start", "main"],
    &["profile", "account"],
    &["dark", "night"],
    &["light", "day", "bright"],
    &["next", "forward"],
    &["back", "previous", "return"],
    &["email", "mail"],
    &["phone", "telephone", "mobile"],
    &["picture", "photo", "image"],
    &["quantity", "amount", "count"],
    &["delivery", "shipping", "shipment"],
    &["message", "note", "comment"],
    &["product", "item", "article"],
    &["notification", "alert"],
    &["shop", "store", "catalogue", "catalog"],
    &["cup", "mug"],
    &["surname", "lastname"],
];

/// Words that say nothing by themselves.
pub(super) const FILLERS: &[&str] = &[
    "a", "about", "again", "ah", "all", "also", "am", "an", "and", "any", "anymore", "are", "as", "at", "be",
    "by", "can", "could", "did", "does", "eh", "else", "er", "erm", "for", "from", "give", "going", "gonna",
    "here", "hey", "hm", "hmm", "i", "id", "ill", "im", "in", "into", "is", "it", "its", "ive", "just",
    "kindly", "let", "lets", "like", "lot", "maybe", "me", "mine", "much", "my", "need", "now", "of", "off",
    "oh", "ok", "okay", "on", "one", "onto", "or", "our", "out", "over", "please", "quickly", "right", "so",
    "some", "sure", "thank", "thanks", "that", "thats", "the", "their", "them", "then", "there", "these",
    "this", "those", "to", "too", "uh", "um", "up", "us", "very", "wanna", "want", "was", "we", "well",
    "will", "with", "would", "yeah", "yes", "you", "your",
];

/// Words that say what sort of thing something is on a screen, and so belong to no thing in particular.
pub(super) const KINDS: &[&str] = &[
    "action", "app", "box", "btn", "button", "checkbox", "control", "current", "dialog", "element", "field",
    "form", "function", "icon", "link", "menu", "option", "page", "panel", "screen", "section", "selected",
    "setting", "site", "tab", "target", "text", "tool", "user", "value", "website",
];

/// How a polite request begins; longer ones first.
pub(super) const POLITE: &[&[&str]] = &[
    &["i", "would", "like", "you", "to"],
    &["would", "you", "be", "so", "kind", "to"],
    &["do", "you", "think", "you", "could"],
    &["i", "would", "like", "to"],
    &["i", "want", "you", "to"],
    &["i", "need", "you", "to"],
    &["could", "you", "please"],
    &["can", "you", "please"],
    &["would", "you", "please"],
    &["i", "want", "to"],
    &["i", "need", "to"],
    &["id", "like", "to"],
    &["can", "you"],
    &["could", "you"],
    &["would", "you"],
    &["will", "you"],
    &["can", "i"],
    &["could", "i"],
    &["may", "i"],
    &["let", "me"],
    &["i", "wanna"],
    &["go", "ahead", "and"],
    &["please"],
    &["lets"],
    &["now"],
    &["hey"],
    &["ok"],
    &["okay"],
    &["so"],
    &["um"],
    &["uh"],
    &["well"],
    &["and"],
    &["then"],
    &["butler"],
];

/// How a question begins.
pub(super) const QUESTIONS: &[&str] = &[
    "what", "whats", "where", "wheres", "which", "who", "whos", "how", "hows", "is", "are", "does", "do",
    "did", "when", "whens", "why", "tell", "read", "describe", "was", "were", "am", "has", "have",
];

/// Questions about where one is.
pub(super) const WHERE: &[&[&str]] = &[
    &["where", "am", "i"],
    &["where", "are", "we"],
    &["what", "page", "is", "this"],
    &["which", "page", "is", "this"],
    &["what", "page", "am", "i", "on"],
    &["which", "page", "am", "i", "on"],
    &["what", "is", "this"],
    &["whats", "this"],
];

/// Questions about what there is to see.
pub(super) const LOOK: &[&[&str]] = &[
    &["what", "do", "i", "see"],
    &["what", "is", "on", "the", "screen"],
    &["whats", "on", "the", "screen"],
    &["what", "is", "on", "this", "page"],
    &["whats", "on", "this", "page"],
    &["whats", "here"],
    &["what", "is", "here"],
    &["read", "the", "screen"],
    &["read", "the", "page"],
    &["read", "this", "page"],
    &["read", "it", "to", "me"],
    &["describe", "the", "screen"],
    &["describe", "the", "page"],
    &["describe", "this", "page"],
];

/// Questions about what can be done.
pub(super) const ABILITIES: &[&[&str]] = &[
    &["what", "can", "i", "do"],
    &["what", "can", "i", "say"],
    &["what", "can", "you", "do"],
    &["what", "are", "my", "options"],
    &["what", "is", "possible"],
    &["what", "else", "can", "i", "do"],
    &["how", "can", "you", "help"],
    &["how", "does", "this", "work"],
    &["what", "do", "you", "do"],
    &["where", "can", "i", "go"],
    &["help", "me"],
];

/// What stops, and does nothing else.
pub(super) const STOP: &[&[&str]] = &[
    &["stop"],
    &["never", "mind"],
    &["nevermind"],
    &["forget", "it"],
    &["forget", "that"],
    &["cancel"],
    &["cancel", "that"],
    &["abort"],
    &["quit"],
    &["nothing"],
    &["no"],
    &["no", "thanks"],
    &["no", "thank", "you"],
    &["be", "quiet"],
    &["shut", "up"],
    &["thats", "all"],
    &["leave", "it"],
];

/// Leaving.
pub(super) const BYE: &[&[&str]] = &[
    &["goodbye"],
    &["good", "bye"],
    &["bye"],
    &["bye", "bye"],
    &["see", "you"],
    &["good", "night"],
    &["hang", "up"],
];

/// Thanking.
pub(super) const THANKS: &[&[&str]] = &[
    &["thanks"],
    &["thank", "you"],
    &["thank", "you", "very", "much"],
    &["thanks", "a", "lot"],
    &["great"],
    &["cool"],
];

/// Greeting.
pub(super) const HELLO: &[&[&str]] = &[
    &["hello"],
    &["hi"],
    &["hey"],
    &["hello", "there"],
    &["hi", "there"],
    &["good", "morning"],
    &["good", "evening"],
];

/// Agreeing, where nothing was asked.
pub(super) const YES: &[&[&str]] = &[
    &["yes"],
    &["yes", "please"],
    &["yeah"],
    &["yep"],
    &["sure"],
    &["ok"],
    &["okay"],
    &["all", "right"],
    &["alright"],
];

/// Asking for the last answer.
pub(super) const AGAIN: &[&[&str]] = &[
    &["again"],
    &["repeat"],
    &["repeat", "that"],
    &["say", "that", "again"],
    &["say", "it", "again"],
    &["what", "did", "you", "say"],
    &["pardon"],
    &["come", "again"],
];

/// What forbids what follows.
pub(super) const FORBIDDING: &[&[&str]] =
    &[&["dont"], &["do", "not"], &["never"], &["please", "dont"], &["please", "do", "not"], &["no", "dont"]];

/// What stands between two things to be done, one after the other.
pub(super) const THEN: &[&[&str]] =
    &[&["and", "then"], &["after", "that"], &["and", "afterwards"], &["and", "after", "that"], &["then"]];

/// What stands before a value, and cannot well be anything else.
pub(super) const SAYING: &[&str] = &["saying", "says", "called", "named", "reading"];

/// What may stand before a value.
pub(super) const BEFORE_VALUE: &[&str] = &["to", "for", "as", "with", "is", "be", "equals"];

/// What stands between a value and where it goes.
pub(super) const INTO: &[&str] = &["into", "in", "to", "as", "for", "on"];

/// What may be said after everything.
pub(super) const AFTER_ALL: &[&str] = &["please", "thanks", "thank", "you"];

/// What sets something true.
pub(super) const TRUE: &[&str] =
    &["on", "yes", "true", "enable", "enabled", "activate", "check", "tick", "checked", "subscribe"];

/// What sets something false.
pub(super) const FALSE: &[&str] = &[
    "off",
    "of",
    "no",
    "false",
    "disable",
    "disabled",
    "deactivate",
    "uncheck",
    "untick",
    "unchecked",
    "not",
    "unsubscribe",
];

/// Those of them that are mostly something else.
pub(super) const LITTLE: &[&str] = &["on", "off", "of", "no", "not", "yes"];

/// The first and the second of two.
pub(super) const FIRST: &[&str] = &["first", "former", "1", "1st", "one"];
/// See [`FIRST`].
pub(super) const SECOND: &[&str] = &["second", "latter", "last", "other", "2", "2nd", "two"];

/// What tells several things of a kind apart by their place, and which place that is; the last is counted from the
/// end.
pub(super) const ORDINALS: &[(&str, isize)] = &[
    ("first", 0),
    ("top", 0),
    ("1st", 0),
    ("second", 1),
    ("2nd", 1),
    ("third", 2),
    ("3rd", 2),
    ("fourth", 3),
    ("4th", 3),
    ("last", -1),
    ("bottom", -1),
];

/// Numbers below a hundred.
pub(super) const NUMBERS: &[(&str, u32)] = &[
    ("zero", 0),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fourty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
    ("dozen", 12),
];

/// Names of parameters that say where to go.
pub(super) const PLACES: &[&str] =
    &["target", "route", "page", "path", "screen", "view", "destination", "url", "section"];

/// What a tool says that came to nothing because somebody did not want it.
pub(super) const REFUSALS: &[&str] =
    &["reject", "denied", "declin", "cancel", "not confirmed", "not approved", "said no"];

/// Tools that a runtime has for models, and that are of no use to somebody who speaks.
pub(super) const FOR_MODELS: &[&str] = &["get_available_routes", "get_system_states", "get_system_functions"];
