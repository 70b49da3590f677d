//! Uses every host function, and can misbehave when asked.

const std = @import("std");
const host = @import("host.zig");

comptime {
    _ = host;
}

pub fn description() []const u8 {
    return "a tool in Zig";
}

pub fn schema() []const u8 {
    return
        \\{"type":"object","properties":{"op":{"type":"string"}}}
    ;
}

fn text(value: anytype) []const u8 {
    return std.json.Stringify.valueAlloc(host.allocator, value, .{}) catch @trap();
}

fn tour() []const u8 {
    host.log(.info, "from zig");
    var status: u16 = 0;
    var answer: []const u8 = "";
    switch (host.httpRequest("POST", "https://api.example.com/v1/x", "{\"x-a\":\"1\"}", "body", 1500)) {
        .response => |response| {
            status = response.status;
            answer = response.body;
        },
        .failure => |failure| answer = failure,
    }
    const denied = switch (host.httpRequest("GET", "https://denied.example.org/", "{}", null, null)) {
        .response => "",
        .failure => |failure| failure,
    };
    const sum = switch (host.toolInvoke("adder", "{\"a\":1,\"b\":2}")) {
        .output => |output| std.fmt.parseInt(i64, output, 10) catch @trap(),
        .failure => 0,
    };
    return text(.{
        .now = host.nowMillis() > 0,
        .document = host.workspaceRead("notes/a.txt"),
        .missing = host.workspaceRead("notes/none.txt"),
        .secret = host.secretExists("API_KEY"),
        .no_secret = host.secretExists("OTHER"),
        .status = status,
        .answer = answer,
        .denied = denied,
        .sum = sum,
    });
}

fn asked(params: []const u8, op: []const u8) bool {
    return std.mem.indexOf(u8, params, op) != null;
}

var sink: u32 = 0;

pub fn execute(params: []const u8) host.Answer {
    if (asked(params, "\"tour\"")) return .{ .output = tour() };
    if (asked(params, "\"loop\"")) while (true) {
        @as(*volatile u32, &sink).* +%= 1;
    };
    if (asked(params, "\"crash\"")) @trap();
    if (asked(params, "\"memory\"")) while (true) {
        const held = host.allocator.alloc(u8, 1 << 20) catch @trap();
        @as(*volatile u8, &held[0]).* = 1;
    };
    if (asked(params, "\"fail\"")) return .{ .failure = "told to fail" };
    return .{ .output = std.fmt.allocPrint(host.allocator, "{{\"echo\":{s}}}", .{params}) catch @trap() };
}
