// Loaded into pi by the gateway: asks it before a tool runs, and offers the
// tools of its clients to the model. Both go as input dialogs whose title is
// JSON; the answer is JSON too.
export default function (pi: any) {
	const offered = new Set<string>();

	const ask = async (ctx: any, what: object) => {
		const answer = await ctx.ui.input(JSON.stringify({ polyhost: 1, ...what }), "");
		if (answer === undefined) return {};
		try {
			return JSON.parse(answer) ?? {};
		} catch {
			return {};
		}
	};

	pi.on("tool_call", async (event: any, ctx: any) => {
		if (offered.has(event.toolName)) return undefined;
		const answer = await ask(ctx, { ask: "permission", call: event.toolCallId, tool: event.toolName, input: event.input });
		if (!answer.allow) return { block: true, reason: answer.reason || "The call was not allowed." };
		if (answer.input) {
			for (const key of Object.keys(event.input)) delete event.input[key];
			Object.assign(event.input, answer.input);
		}
		return undefined;
	});

	pi.registerCommand("polyhost-tools", {
		description: "Offers the tools of the gateway's clients",
		handler: async (args: string) => {
			const tools = JSON.parse(args);
			const others = pi.getActiveTools().filter((name: string) => !offered.has(name));
			for (const tool of tools) {
				offered.add(tool.name);
				pi.registerTool({
					name: tool.name,
					label: tool.name,
					description: tool.description || tool.name,
					parameters: tool.schema ?? { type: "object", properties: {} },
					async execute(call: string, input: any, _signal: any, _update: any, ctx: any) {
						const answer = await ask(ctx, { ask: "call", call, tool: tool.name, input });
						if (answer.output === undefined || answer.failed) throw new Error(answer.output || "The call was not answered.");
						return { content: [{ type: "text", text: answer.output }], details: {} };
					},
				});
			}
			pi.setActiveTools([...others, ...tools.map((tool: any) => tool.name)]);
		},
	});
}
