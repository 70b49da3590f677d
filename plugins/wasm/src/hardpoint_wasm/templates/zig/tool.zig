//! The tool @NAME@.

const std = @import("std");
const host = @import("host.zig");

comptime {
    _ = host; // its exports are what the host calls
}

const Params = struct { who: []const u8 };

pub fn description() []const u8 {
    return "Greet a person.";
}

pub fn schema() []const u8 {
    return
        \\{"type":"object","properties":{"who":{"type":"string","description":"Whom to greet."}},"required":["who"]}
    ;
}

pub fn execute(params: []const u8) host.Answer {
    const options = std.json.ParseOptions{ .ignore_unknown_fields = true };
    const parsed = std.json.parseFromSlice(Params, host.allocator, params, options) catch
        return .{ .failure = "who must be text" };
    const who = parsed.value.who;
    const line = std.fmt.allocPrint(host.allocator, "greeting {s}", .{who}) catch @trap();
    host.log(.info, line);
    const greeting = std.fmt.allocPrint(host.allocator, "Hello {s}.", .{who}) catch @trap();
    const answer = std.json.Stringify.valueAlloc(host.allocator, .{ .greeting = greeting }, .{}) catch @trap();
    return .{ .output = answer };
}
