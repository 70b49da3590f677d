//! The tool world near:agent@0.3.0 for Rust, without any crate.
//!
//! You write `description`, `schema` and `execute` in tool.rs and call the functions below.
#![allow(dead_code)]

use std::alloc::{alloc, handle_alloc_error, realloc, Layout};

#[derive(Clone, Copy)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

pub struct Response {
    pub status: u16,
    pub headers_json: String,
    pub body: Vec<u8>,
}

#[link(wasm_import_module = "near:agent/host@0.3.0")]
extern "C" {
    #[link_name = "log"]
    fn abi_log(level: u32, at: *const u8, length: usize);
    #[link_name = "now-millis"]
    fn abi_now() -> u64;
    #[link_name = "workspace-read"]
    fn abi_read(at: *const u8, length: usize, result: *mut usize);
    #[link_name = "http-request"]
    fn abi_http(
        method: *const u8,
        method_length: usize,
        url: *const u8,
        url_length: usize,
        headers: *const u8,
        headers_length: usize,
        has_body: u32,
        body: *const u8,
        body_length: usize,
        has_timeout: u32,
        timeout: u32,
        result: *mut usize,
    );
    #[link_name = "tool-invoke"]
    fn abi_invoke(
        alias: *const u8,
        alias_length: usize,
        params: *const u8,
        params_length: usize,
        result: *mut usize,
    );
    #[link_name = "secret-exists"]
    fn abi_secret(at: *const u8, length: usize) -> u32;
}

pub fn log(level: Level, message: &str) {
    unsafe { abi_log(level as u32, message.as_ptr(), message.len()) }
}

pub fn now_millis() -> u64 {
    unsafe { abi_now() }
}

pub fn workspace_read(path: &str) -> Option<String> {
    let mut result = [0usize; 3];
    unsafe { abi_read(path.as_ptr(), path.len(), result.as_mut_ptr()) };
    (result[0] & 255 != 0).then(|| taken(result[1], result[2]))
}

pub fn http_request(
    method: &str,
    url: &str,
    headers_json: &str,
    body: Option<&[u8]>,
    timeout_ms: Option<u32>,
) -> Result<Response, String> {
    let mut result = [0usize; 6];
    let sent = body.unwrap_or(&[]);
    unsafe {
        abi_http(
            method.as_ptr(),
            method.len(),
            url.as_ptr(),
            url.len(),
            headers_json.as_ptr(),
            headers_json.len(),
            body.is_some() as u32,
            sent.as_ptr(),
            sent.len(),
            timeout_ms.is_some() as u32,
            timeout_ms.unwrap_or(0),
            result.as_mut_ptr(),
        )
    };
    if result[0] & 255 != 0 {
        return Err(taken(result[1], result[2]));
    }
    Ok(Response {
        status: result[1] as u16,
        headers_json: taken(result[2], result[3]),
        body: taken(result[4], result[5]).into_bytes(),
    })
}

pub fn tool_invoke(alias: &str, params_json: &str) -> Result<String, String> {
    let mut result = [0usize; 3];
    unsafe {
        abi_invoke(
            alias.as_ptr(),
            alias.len(),
            params_json.as_ptr(),
            params_json.len(),
            result.as_mut_ptr(),
        )
    };
    let answer = taken(result[1], result[2]);
    if result[0] & 255 == 0 {
        Ok(answer)
    } else {
        Err(answer)
    }
}

pub fn secret_exists(name: &str) -> bool {
    unsafe { abi_secret(name.as_ptr(), name.len()) != 0 }
}

/// What the host put into memory that `cabi_realloc` gave it: bytes that are ours now.
fn taken(at: usize, length: usize) -> String {
    if length == 0 {
        return String::new();
    }
    unsafe { String::from_utf8_unchecked(Vec::from_raw_parts(at as *mut u8, length, length)) }
}

#[no_mangle]
unsafe extern "C" fn cabi_realloc(
    old: *mut u8,
    old_length: usize,
    align: usize,
    length: usize,
) -> *mut u8 {
    if length == 0 {
        return align as *mut u8;
    }
    let layout = Layout::from_size_align_unchecked(length, align);
    let made = if old_length == 0 {
        alloc(layout)
    } else {
        realloc(old, Layout::from_size_align_unchecked(old_length, align), length)
    };
    if made.is_null() {
        handle_alloc_error(layout);
    }
    made
}

static mut ANSWER: [usize; 6] = [0; 6];

/// Leaves the text where the host finds it: each call has a memory of its own.
unsafe fn given(place: usize, text: String) {
    let bytes = text.into_bytes().leak();
    ANSWER[place] = bytes.as_ptr() as usize;
    ANSWER[place + 1] = bytes.len();
}

#[export_name = "near:agent/tool@0.3.0#description"]
unsafe extern "C" fn abi_description() -> *const usize {
    given(0, crate::description());
    std::ptr::addr_of!(ANSWER) as *const usize
}

#[export_name = "near:agent/tool@0.3.0#schema"]
unsafe extern "C" fn abi_schema() -> *const usize {
    given(0, crate::schema());
    std::ptr::addr_of!(ANSWER) as *const usize
}

#[export_name = "near:agent/tool@0.3.0#execute"]
unsafe extern "C" fn abi_execute(
    params: usize,
    params_length: usize,
    has_context: u32,
    context: usize,
    context_length: usize,
) -> *const usize {
    if has_context != 0 {
        drop(taken(context, context_length));
    }
    let (place, answer) = match crate::execute(&taken(params, params_length)) {
        Ok(output) => (0, output),
        Err(error) => (3, error),
    };
    ANSWER = [0; 6];
    ANSWER[place] = 1;
    given(place + 1, answer);
    std::ptr::addr_of!(ANSWER) as *const usize
}
