import AsyncStorage from "@react-native-async-storage/async-storage";
import { createClient } from "@switchboard/client";
import { SwitchboardProvider, useApprovals, useConnection, useSession, useTool, useTurn } from "@switchboard/react";
import { useEffect, useState } from "react";
import { Alert, AppState, Button, FlatList, Platform, SafeAreaView, Text, TextInput, View } from "react-native";

const client = createClient({ url: process.env.EXPO_PUBLIC_SWITCHBOARD_URL ?? "http://127.0.0.1:4600", storage: AsyncStorage });

export default function App() {
  return <SwitchboardProvider client={client}><Chat /></SwitchboardProvider>;
}

function Chat() {
  const session = useSession("phone");
  const { state } = useConnection();
  const [text, setText] = useState("");
  // A connection may be gone when the app comes back to the front.
  useEffect(() => {
    const listening = AppState.addEventListener("change", (next) => next === "active" && client.check());
    return () => listening?.remove();
  }, []);
  useTool({ name: "platform", description: "What this app runs on", input: { type: "object" }, run: () => Platform.OS });
  return (
    <SafeAreaView style={{ flex: 1 }}>
      <Text accessibilityRole="header">{state}</Text>
      <FlatList data={session.messages} keyExtractor={({ id }) => id} renderItem={({ item }) => <Message message={item} />} />
      <Approvals />
      <View style={{ flexDirection: "row" }}>
        <TextInput style={{ flex: 1 }} accessibilityLabel="Message" value={text} onChangeText={setText} />
        {session.running ? <Button title="Stop" onPress={session.stop} /> : <Button title="Send" onPress={() => (session.ask(text), setText(""))} />}
      </View>
    </SafeAreaView>
  );
}

function Message({ message }) {
  const turn = useTurn(message.turn);
  return (
    <View>
      {turn.tools.map(({ id, name, state }) => <Text key={id}>{name}: {state}</Text>)}
      <Text>{message.turn ? turn.text : message.text}</Text>
      {turn.error ? <Text accessibilityRole="alert">{turn.error.message}. {turn.error.advice}</Text> : null}
    </View>
  );
}

function Approvals() {
  return useApprovals().map((open) =>
    "approve" in open ? <Button key={open.id} title={open.text} onPress={() => Alert.alert(open.text, "", [{ text: "No", onPress: open.deny }, { text: "Yes", onPress: open.approve }])} /> : null,
  );
}
