"""Programs that talk to the policy over the OpenAI API: functions of a user's, or processes of their own."""
