//! The tool world near:agent@0.3.0 for Zig.
//!
//! You write `description`, `schema` and `execute` in tool.zig and call the functions below. Memory
//! from `allocator` is given back when the call ends.

const std = @import("std");
const tool = @import("tool.zig");

pub const allocator = std.heap.wasm_allocator;

pub const Level = enum(u32) { trace, debug, info, warn, err };
pub const Response = struct { status: u16, headers_json: []const u8, body: []const u8 };
pub const Answer = union(enum) { output: []const u8, failure: []const u8 };
pub const HttpAnswer = union(enum) { response: Response, failure: []const u8 };

const abi = struct {
    extern "near:agent/host@0.3.0" fn log(level: u32, at: [*]const u8, length: usize) void;
    extern "near:agent/host@0.3.0" fn @"now-millis"() u64;
    extern "near:agent/host@0.3.0" fn @"workspace-read"([*]const u8, usize, *[3]usize) void;
    extern "near:agent/host@0.3.0" fn @"http-request"([*]const u8, usize, [*]const u8, usize, [*]const u8, usize, u32, [*]const u8, usize, u32, u32, *[6]usize) void;
    extern "near:agent/host@0.3.0" fn @"tool-invoke"([*]const u8, usize, [*]const u8, usize, *[3]usize) void;
    extern "near:agent/host@0.3.0" fn @"secret-exists"([*]const u8, usize) u32;
};

pub fn log(level: Level, message: []const u8) void {
    abi.log(@intFromEnum(level), message.ptr, message.len);
}

pub fn nowMillis() u64 {
    return abi.@"now-millis"();
}

pub fn workspaceRead(path: []const u8) ?[]const u8 {
    var r: [3]usize = undefined;
    abi.@"workspace-read"(path.ptr, path.len, &r);
    return if (r[0] & 255 == 0) null else slice(r[1], r[2]);
}

pub fn httpRequest(method: []const u8, url: []const u8, headers_json: []const u8, body: ?[]const u8, timeout_ms: ?u32) HttpAnswer {
    var r: [6]usize = undefined;
    const sent = body orelse "";
    abi.@"http-request"(method.ptr, method.len, url.ptr, url.len, headers_json.ptr, headers_json.len, @intFromBool(body != null), sent.ptr, sent.len, @intFromBool(timeout_ms != null), timeout_ms orelse 0, &r);
    if (r[0] & 255 != 0) return .{ .failure = slice(r[1], r[2]) };
    return .{ .response = .{ .status = @truncate(r[1]), .headers_json = slice(r[2], r[3]), .body = slice(r[4], r[5]) } };
}

pub fn toolInvoke(alias: []const u8, params_json: []const u8) Answer {
    var r: [3]usize = undefined;
    abi.@"tool-invoke"(alias.ptr, alias.len, params_json.ptr, params_json.len, &r);
    const answer = slice(r[1], r[2]);
    return if (r[0] & 255 == 0) .{ .output = answer } else .{ .failure = answer };
}

pub fn secretExists(name: []const u8) bool {
    return abi.@"secret-exists"(name.ptr, name.len) != 0;
}

fn slice(at: usize, length: usize) []const u8 {
    if (length == 0) return "";
    return @as([*]const u8, @ptrFromInt(at))[0..length];
}

export fn cabi_realloc(old: usize, old_length: usize, alignment: usize, length: usize) usize {
    if (length == 0) return alignment;
    const made = allocator.alignedAlloc(u8, .@"8", length) catch @trap();
    if (old_length != 0) {
        const kept = @min(old_length, length);
        @memcpy(made[0..kept], slice(old, kept));
    }
    return @intFromPtr(made.ptr);
}

var answer_area: [6]usize = undefined;

fn give(place: usize, text: []const u8) *[6]usize {
    answer_area[place] = @intFromPtr(text.ptr);
    answer_area[place + 1] = text.len;
    return &answer_area;
}

export fn @"near:agent/tool@0.3.0#description"() *[6]usize {
    return give(0, tool.description());
}

export fn @"near:agent/tool@0.3.0#schema"() *[6]usize {
    return give(0, tool.schema());
}

export fn @"near:agent/tool@0.3.0#execute"(params: usize, params_length: usize, has_context: u32, context: usize, context_length: usize) *[6]usize {
    _ = .{ has_context, context, context_length };
    const answer = tool.execute(slice(params, params_length));
    answer_area = @splat(0);
    switch (answer) {
        .output => |text| {
            answer_area[0] = 1;
            return give(1, text);
        },
        .failure => |text| {
            answer_area[3] = 1;
            return give(4, text);
        },
    }
}
