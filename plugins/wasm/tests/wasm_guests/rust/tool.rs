//! Uses every host function, and can misbehave when asked.

mod host;

pub fn description() -> String {
    "a tool in Rust".into()
}

pub fn schema() -> String {
    r#"{"type":"object","properties":{"op":{"type":"string"}}}"#.into()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "'"))
}

fn tour() -> String {
    host::log(host::Level::Info, "from rust");
    let now = host::now_millis() > 0;
    let document = host::workspace_read("notes/a.txt").map_or("null".into(), |text| quoted(&text));
    let missing = host::workspace_read("notes/none.txt").map_or("null".into(), |text| quoted(&text));
    let url = "https://api.example.com/v1/x";
    let (status, answer) = match host::http_request("POST", url, r#"{"x-a":"1"}"#, Some(b"body"), Some(1500)) {
        Ok(response) => (response.status, String::from_utf8_lossy(&response.body).into_owned()),
        Err(error) => (0, error),
    };
    let denied = match host::http_request("GET", "https://denied.example.org/", "{}", None, None) {
        Ok(_) => String::new(),
        Err(error) => error,
    };
    let sum = host::tool_invoke("adder", r#"{"a":1,"b":2}"#).unwrap_or_else(|error| quoted(&error));
    format!(
        r#"{{"now":{},"document":{},"missing":{},"secret":{},"no_secret":{},"status":{},"answer":{},"denied":{},"sum":{}}}"#,
        now,
        document,
        missing,
        host::secret_exists("API_KEY"),
        host::secret_exists("OTHER"),
        status,
        quoted(&answer),
        quoted(&denied),
        sum,
    )
}

pub fn execute(params: &str) -> Result<String, String> {
    let asked = |op: &str| params.contains(&format!("\"{}\"", op));
    if asked("tour") {
        return Ok(tour());
    }
    if asked("loop") {
        let mut n = 0u32;
        loop {
            unsafe { std::ptr::write_volatile(&mut n, n.wrapping_add(1)) };
        }
    }
    if asked("crash") {
        panic!("told to crash");
    }
    if asked("memory") {
        let mut held: Vec<Vec<u8>> = Vec::new();
        loop {
            held.push(vec![held.len() as u8 | 1; 1 << 20]);
        }
    }
    if asked("fail") {
        return Err("told to fail".into());
    }
    Ok(format!(r#"{{"echo":{}}}"#, params))
}
