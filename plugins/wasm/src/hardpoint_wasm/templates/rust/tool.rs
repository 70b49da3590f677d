//! The tool @NAME@.

mod host;

pub fn description() -> String {
    "Greet a person.".into()
}

pub fn schema() -> String {
    r#"{"type":"object","properties":{"who":{"type":"string","description":"Whom to greet."}},
        "required":["who"]}"#
        .into()
}

pub fn execute(params: &str) -> Result<String, String> {
    let who = string_of(params, "who").ok_or("who must be text")?;
    host::log(host::Level::Info, &format!("greeting {}", who));
    Ok(format!(r#"{{"greeting":"Hello {}."}}"#, who))
}

/// The string under a key of flat JSON, escapes left as they are; bring serde_json for more.
fn string_of<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let name = format!("\"{}\"", key);
    let rest = json[json.find(&name)? + name.len()..].trim_start();
    let rest = rest.strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let bytes = rest.as_bytes();
    let mut end = 0;
    while *bytes.get(end)? != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    rest.get(..end)
}
